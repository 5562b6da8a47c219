{#-
    Step 1 of a run: what is committed and planned, and that it belongs to this MV. Where there is nothing yet,
    the state is that of an MV about to be created (`missing`). Where an earlier run died while it created the
    tables, the MV is created first. A table that is to become the MV is taken, see find_taking. Returns what
    new_observed describes; arguments and errors are those of find_standing.
-#}
{% macro observe_state(backfill, reads_nothing=false) %}
    {%- set standing = dbt_backfill.find_standing(backfill, reads_nothing) -%}
    {%- if standing.get('observed') -%}
        {{ return(standing.observed) }}
    {%- elif standing.get('taking') -%}
        {{ return(dbt_backfill.take_table(backfill, standing.existing, standing.properties, standing.taking)) }}
    {%- endif -%}
    {%- set missing = standing.missing -%}
    {%- if standing.gives_way -%}
        {#- Noted in the plan that creates the tables, which puts it away. -#}
        {%- set creation = dict(missing.state.committed, replaces=standing.left.committed.backfill_id) -%}
        {{ return(dbt_backfill.new_observed(dict(missing.state, committed=creation), learned=missing.learned)) }}
    {%- endif -%}
    {%- do dbt_backfill.create_backfill(backfill, missing.state) -%}
    {%- set made = dbt_backfill.observe_existing(backfill, standing.existing, standing.settings) -%}
    {{ return(dbt_backfill.new_observed(made.state, begun_anew=made.begun_anew, learned=missing.learned)) }}
{% endmacro %}


{#-
    What stands of an MV; nothing is written. Every combination of tables that is none of these is refused by its name: {
      'observed': of an MV that goes on, or is about to be created, see new_observed; else none, and it is
      'taking': how the table of its name becomes the MV, see find_taking, with its 'properties'; or
      'left': the state of a first run that died before the MV was there, with
          'missing', what is observed without it, and 'gives_way', whether it is of no use to this model,
      'existing': see get_existing_relations; 'settings': the session's, of what is left
    }

    Arguments:
      reads_nothing (boolean): whether the run is of `--empty` or `--sample`, which takes no table.
-#}
{% macro find_standing(backfill, reads_nothing=false) %}
    {%- set existing = dbt_backfill.get_existing_relations(backfill) -%}
    {%- if existing.progress is not none and existing.mv is none -%}
        {#- dbt's list of tables is as old as the invocation, and another run may have been creating the MV. -#}
        {%- set existing = dict(existing, mv=dbt_backfill.find_table(backfill.mv)) -%}
    {%- endif -%}
    {%- if existing.mv is none -%}
        {%- set left = dbt_backfill.read_left_state(backfill, existing) -%}
        {%- if left is none -%} {%- do dbt_backfill.check_leftovers_are_ours(backfill, existing) -%} {%- endif -%}
        {%- if left and left.epoch > 0 -%} {%- do dbt_backfill.refuse_missing_mv(backfill) -%} {%- endif -%}
        {%- set settings = dbt_backfill.read_settings() -%}
        {%- set missing = dbt_backfill.observe_missing(backfill, settings) -%}
        {%- if left is none -%} {{ return({'observed': missing}) }} {%- endif -%}
        {{ return({
            'left': left,
            'missing': missing,
            'gives_way': dbt_backfill._gives_way(backfill, missing.learned, left),
            'existing': existing,
            'settings': settings,
        }) }}
    {%- endif -%}
    {%- set properties = dbt_backfill.read_mv_properties(backfill, existing.mv) -%}
    {%- set taking = none if reads_nothing else dbt_backfill.find_taking(backfill, existing, properties) -%}
    {%- if taking -%}
        {{ return({'taking': taking, 'existing': existing, 'properties': properties}) }}
    {%- elif existing.progress is none -%}
        {%- do dbt_backfill.refuse_missing_state(backfill, properties) -%}
    {%- endif -%}
    {{ return({'observed': dbt_backfill.observe_existing(backfill, existing, properties=properties)}) }}
{% endmacro %}


{#-
    What a run observes of an MV before its first barrier: {
      'state': as read_state returned it, or get_missing_state,
      'mv': the MV as the run has found it, see read_mv; none if there was none,
      'begun_anew': why it is to be reset although nobody asked for it, none as a rule,
      'learned': what it took to know of the query, see new_learned
    }
-#}
{% macro new_observed(state, mv=none, begun_anew=none, learned=none) %}
    {{ return({'state': state, 'mv': mv, 'begun_anew': begun_anew, 'learned': learned or dbt_backfill.new_learned()}) }}
{% endmacro %}


{#-
    What is observed of an MV that is about to be created, see new_observed: the epoch 0, at which no vnode has started. A
    session in which it should not be, and a query that cannot be followed, are refused.

    Arguments:
      settings (dict): the session's, see read_settings.
-#}
{% macro observe_missing(backfill, settings) %}
    {%- do dbt_backfill.check_catalog_cache(backfill, settings) -%}
    {%- do dbt_backfill.check_settings(backfill, settings) -%}
    {%- do dbt_backfill.check_idempotent_writes(backfill, settings) -%}
    {%- do dbt_backfill.check_table_overrides(backfill, settings) -%}
    {%- set learned = dbt_backfill.learn_query(backfill, dbt_backfill.new_learned()) -%}
    {%- set learned = dbt_backfill.check_key_order(backfill, learned) -%}
    {{ return(dbt_backfill.new_observed(dbt_backfill.get_missing_state(backfill, learned), learned=learned)) }}
{% endmacro %}


{#-
    Whether what a first run has left, that failed or died before it had created the MV, is for another model than today's, or
    of a table that was to be taken and is gone: it gives way to this one, because nothing was ever merged.
-#}
{% macro _gives_way(backfill, learned, left) %}
    {%- if not left.committed -%} {{ return(false) }} {%- endif -%}
    {%- if left.committed.kind != 'create' -%} {{ return(true) }} {%- endif -%}
    {{ return(not not dbt_backfill.find_difference(backfill, left.settings, learned, left.planned or left.committed)) }}
{% endmacro %}


{#-
    Of tables that exist; `existing` is what get_existing_relations returned, `settings` see check_settings_in_doubt, and
    `properties` are the MV's, if they were read.
-#}
{% macro observe_existing(backfill, existing, settings=none, properties=none) %}
    {%- set mv = dbt_backfill.read_mv(
        backfill, dbt_backfill.read_mv_properties(backfill, existing.mv) if properties is none else properties
    ) -%}
    {%- set state = dbt_backfill.read_state(
        backfill, dbt_backfill.get_uncached_relations(backfill), history_of=mv.id if existing.barriers else none,
        controls_of=backfill.get('controls_of') or mv.id
    ) -%}
    {%- do dbt_backfill.check_string_literals(state.settings, backfill.get('name')) -%}
    {%- do dbt_backfill.check_settings_in_doubt(backfill, state, settings) -%}
    {%- do dbt_backfill.check_state_belongs(backfill, mv, state) -%}
    {{ return(dbt_backfill.new_observed(state, mv, dbt_backfill.find_new_beginning(backfill, mv, state))) }}
{% endmacro %}
