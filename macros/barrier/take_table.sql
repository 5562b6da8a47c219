{#-
    How a run takes a table of the MV's name that is no MV yet; none if it does not:

      adopt    its rows stay, and the barriers that follow compare them with the query, see is_sweeping: where adopt_table
        has marked it for this model
      replace  the barriers begin with a reset: by a full refresh of a model that has `replace_existing`

    Arguments:
      existing (dict): as get_existing_relations returned it, with an MV.
      properties (dict): of the MV.
-#}
{% macro find_taking(backfill, existing, properties) %}
    {%- set adopts = properties.get('dbt_backfill.adopt') == dbt_backfill.get_mark_of_adoption(model.unique_id) -%}
    {%- set replaces = backfill.options.replace_existing and should_full_refresh() -%}
    {#- A mark may come late, after the table was taken. -#}
    {%- if not adopts and not replaces or dbt_backfill._is_taken(backfill, existing, properties) -%} {{ return(none) }} {%- endif -%}
    {%- if adopts and not replaces and should_full_refresh() -%}
        {%- do dbt_backfill.refuse(
            backfill.mv.render() ~ ' is to be adopted, and a full refresh would empty it',
            'Run without --full-refresh, or set replace_existing to true to replace the table'
        ) -%}
    {%- endif -%}
    {{ return('replace' if replaces else 'adopt') }}
{% endmacro %}


{#- What adopt_table marks a table with for a model. A hash: of a name in which Spark sees a secret it would not show the property. -#}
{% macro get_mark_of_adoption(unique_id) %}
    {{ return(local_md5(unique_id)) }}
{% endmacro %}


{#- Whether the table and the state beside it are one MV. -#}
{% macro _is_taken(backfill, existing, properties) %}
    {%- if existing.progress is none or 'dbt_backfill.id' not in properties -%} {{ return(false) }} {%- endif -%}
    {{ return(dbt_backfill.read_table_properties(backfill.progress).get('dbt_backfill.id') == properties['dbt_backfill.id']) }}
{% endmacro %}


{#-
    Take the table, as a part of step 1 of a run. Its state is created, of the epoch 0 and the kind `how`, and then one ALTER
    makes the table its MV; a view gives way to a table. Each can be repeated. A run that died in between is completed
    by the next one, or, if that is for another query, gives way to it: nothing was merged.

    What cannot be taken is refused before. Returns what new_observed describes.

    Arguments:
      how (string): see find_taking.
-#}
{% macro take_table(backfill, existing, properties, how) %}
    {%- do dbt_backfill.check_leftovers_are_ours(backfill, existing) -%}
    {%- set missing = dbt_backfill.observe_missing(backfill, dbt_backfill.read_settings()) -%}
    {%- set columns = dbt_backfill.prepare_creation(backfill) -%}
    {%- set creation = dict(
        missing.state.committed, kind=how, sweeps=how == 'adopt', replaces=dbt_backfill._find_left_state(backfill, existing, missing, how)
    ) -%}
    {%- set partitions = [] -%}
    {%- if how == 'adopt' -%}
        {%- set checked = dbt_backfill.check_adopted(backfill, existing.mv, properties, columns, creation.key) -%}
        {%- set partitions = checked.partitions -%}
        {%- do dbt_backfill.report_taking(backfill, checked.row_count) -%}
    {%- else -%}
        {%- do dbt_backfill.check_replaced(backfill, existing.mv) -%}
    {%- endif -%}
    {%- do dbt_backfill.create_backfill(
        backfill, dict(missing.state, committed=creation), columns,
        dbt_backfill._get_taking_statements(backfill, existing.mv, properties, columns, creation, partitions)
    ) -%}
    {#- A view that was found is a table by now. -#}
    {%- set made = dbt_backfill.observe_existing(
        backfill, existing, properties=dbt_backfill.read_table_properties(backfill.mv)
    ) -%}
    {{ return(dbt_backfill.new_observed(made.state, made.mv, made.begun_anew, missing.learned)) }}
{% endmacro %}


{#- The statements that make the table the MV of the plan of epoch 0, once its state is there. -#}
{% macro _get_taking_statements(backfill, existing, properties, columns, creation, partitions) %}
    {%- if existing.is_view -%}
        {{ return([
            'drop view if exists ' ~ backfill.mv.render(),
            dbt_backfill.get_create_mv_sql(backfill.mv, columns, creation.backfill_id),
        ]) }}
    {%- endif -%}
    {%- set taken = dbt_backfill.adopted_properties(backfill.mv, columns, properties, creation.backfill_id, partitions)
        if creation.kind == 'adopt' else dbt_backfill.own_mv_properties(backfill.mv, creation.backfill_id) -%}
    {{ return([dbt_backfill.get_set_properties_sql(backfill.mv, taken)]) }}
{% endmacro %}


{#-
    The id of a state that gives way to the one of this table, because nothing was ever merged with it; none if there is
    none, or this run goes on with it. One with which something was merged is refused.
-#}
{% macro _find_left_state(backfill, existing, missing, how) %}
    {%- set left = dbt_backfill.read_left_state(backfill, existing) -%}
    {%- if left is none -%} {{ return(none) }} {%- endif -%}
    {%- if left.epoch > 0 -%} {%- do dbt_backfill.refuse_other_state(backfill) -%} {%- endif -%}
    {%- set same = left.committed and left.committed.kind == how
        and not dbt_backfill.find_difference(backfill, left.settings, missing.learned, left.committed) -%}
    {{ return(none if same or not left.committed else left.committed.backfill_id) }}
{% endmacro %}


{#- The state beside a table, none if there is none; one that this version does not read is refused. -#}
{% macro read_left_state(backfill, existing) %}
    {%- if existing.progress is none -%} {{ return(none) }} {%- endif -%}
    {%- do dbt_backfill.check_progress_is_ours(backfill, existing.progress) -%}
    {{ return(dbt_backfill.read_state(backfill)) }}
{% endmacro %}


{#- Refuse to take a table beside which there is the state of another one. -#}
{% macro refuse_other_state(backfill) %}
    {%- set name = dbt_backfill.get_name_of(backfill) -%}
    {%- do dbt_backfill.refuse(
        backfill.progress.render() ~ ' exists, and is the state of another table than ' ~ backfill.mv.render() ~ ' is now',
        'Drop it, and the history with it: ' ~ dbt_backfill.get_operation_text('drop_backfill', '{model: ' ~ name ~ ', keep_mv: true}'),
        mv=backfill.get('name')
    ) -%}
{% endmacro %}


{#- One line that says what an adoption is about to do. `rows`: how many the table has. -#}
{% macro report_taking(backfill, rows) %}
    {%- set slices = dbt_backfill.get_slices_text(backfill.options.backfill_rate_limit) -%}
    {%- do log(
        dbt_backfill.get_model_name(model) ~ ' adopts ' ~ backfill.mv.render() ~ ': its ' ~ '{:,}'.format(rows)
            ~ (' row is' if rows == 1 else ' rows are') ~ ' compared with its query' ~ slices ~ ', and only what differs is written', info=true
    ) -%}
{% endmacro %}
