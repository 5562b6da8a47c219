{#-
    Step 1 of a barrier: what is committed and planned, and that it belongs to this MV. Where there is nothing yet,
    the state is that of an MV about to be created (`missing`). Where an earlier run died while it created the
    tables, the MV is created first. Every other combination is refused by its name.
-#}
{% macro observe_state(backfill) %}
    {%- set existing = dbt_backfill.get_existing_relations(backfill) -%}
    {%- if existing.progress is none and existing.mv is none -%}
        {%- if existing.barriers -%} {%- do dbt_backfill._check_history_is_ours(backfill, existing.barriers) -%} {%- endif -%}
        {{ return(dbt_backfill.get_missing_state(backfill)) }}
    {%- elif existing.progress is none -%}
        {%- do dbt_backfill.refuse_missing_state(backfill) -%}
    {%- elif existing.mv is none -%}
        {%- do dbt_backfill.check_state_format(backfill, dbt_backfill.read_table_properties(backfill.progress)) -%}
        {%- set left = dbt_backfill.read_state(backfill) -%}
        {%- if left.epoch > 0 -%} {%- do dbt_backfill.refuse_missing_mv(backfill) -%} {%- endif -%}
        {%- set state = dbt_backfill.get_missing_state(backfill) -%}
        {%- if dbt_backfill._gives_way(backfill, left) -%}
            {#- Noted in the plan that creates the tables, which puts it away. -#}
            {{ return(dict(state, committed=dict(state.committed, replaces=left.committed.backfill_id))) }}
        {%- endif -%}
        {%- do dbt_backfill.create_backfill(backfill, state) -%}
    {%- endif -%}
    {{ return(dbt_backfill.observe_existing(backfill, existing)) }}
{% endmacro %}


{#-
    Whether what a first run has left, that failed or died before it had created the MV, is for another model than today's:
    it gives way to this one, because nothing was ever merged.
-#}
{% macro _gives_way(backfill, left) %}
    {%- if not left.committed -%} {{ return(false) }} {%- endif -%}
    {{ return(not not dbt_backfill._query_difference(backfill, left, left.planned or left.committed)) }}
{% endmacro %}


{#- The state of tables that exist; `existing` is what get_existing_relations returned. -#}
{% macro observe_existing(backfill, existing) %}
    {%- do dbt_backfill._check_mv_is_ours(backfill, existing.mv or backfill.mv) -%}
    {%- set state = dbt_backfill.read_state(
        backfill, dbt_backfill.get_uncached_relations(backfill), history_of=backfill.mv_id if existing.barriers else none
    ) -%}
    {%- do backfill.update({'written': (-1 if state.get('written') is none else state.written) if existing.barriers else none}) -%}
    {%- do dbt_backfill.check_string_literals(state.settings, backfill.get('name')) -%}
    {%- do dbt_backfill.check_catalog_cache(backfill, state.get('caches')) -%}
    {%- do dbt_backfill.check_idempotent_writes(backfill, state.get('txn_app_id', '')) -%}
    {%- do dbt_backfill._check_state(backfill, state) -%}
    {%- do dbt_backfill._check_mv_was_not_replaced(backfill, state) -%}
    {{ return(state) }}
{% endmacro %}


{% macro refuse_missing_mv(backfill) %}
    {%- do dbt_backfill.refuse(
        backfill.mv.render() ~ ' does not exist, but its state does (' ~ backfill.progress.render() ~ ')',
        'Restore the MV, or drop ' ~ backfill.progress.render() ~ ' to build it anew',
        mv=backfill.get('name')
    ) -%}
{% endmacro %}


{% macro refuse_missing_state(backfill) %}
    {%- if 'dbt_backfill.id' not in dbt_backfill.read_table_properties(backfill.mv) -%}
        {%- do dbt_backfill._refuse_foreign_mv(backfill) -%}
    {%- endif -%}
    {%- do dbt_backfill.refuse(
        'its state is missing: ' ~ backfill.progress.render() ~ ' does not exist',
        'Restore it, or drop ' ~ backfill.mv.render() ~ ' to build it anew',
        mv=backfill.get('name')
    ) -%}
{% endmacro %}


{#-
    Refuse tables whose state this version does not read.

    Arguments:
      properties (dict): of the MV, or of the progress table.
-#}
{% macro check_state_format(backfill, properties) %}
    {%- set format = properties.get('dbt_backfill.format', '1') -%}
    {%- if format != dbt_backfill.state_format() -%}
        {%- do dbt_backfill.refuse(
            'its state ' ~ backfill.progress.render() ~ ' has the format ' ~ format ~ ', and this version of the package reads '
                ~ dbt_backfill.state_format(),
            'Use the version that made it, or drop ' ~ backfill.mv.render() ~ ', ' ~ backfill.progress.render() ~ ' and '
                ~ backfill.barriers.render() ~ ' to build it anew',
            mv=backfill.get('name')
        ) -%}
    {%- endif -%}
{% endmacro %}


{% macro _refuse_foreign_mv(backfill) %}
    {%- do dbt_backfill.refuse(
        backfill.mv.render() ~ ' exists, and was not made by this materialization',
        'Drop or rename it, or give the model another alias',
        mv=backfill.get('name')
    ) -%}
{% endmacro %}


{% macro _get_format_of(properties) %}
    {{ return('iceberg' if properties.get('format', '').startswith('iceberg') else 'delta') }}
{% endmacro %}


{#- Refuse a table with the history's name that the history of a new MV cannot be written to. -#}
{% macro _check_history_is_ours(backfill, existing) %}
    {%- set properties = {} if existing.is_view else dbt_backfill.read_table_properties(backfill.barriers) -%}
    {%- if properties.get('dbt_backfill.format') != dbt_backfill.state_format()
            or dbt_backfill._get_format_of(properties) != backfill.options.file_format -%}
        {%- do dbt_backfill.refuse(
            backfill.barriers.render() ~ ' exists, and is no history that this version of the package writes to '
                ~ backfill.options.file_format,
            'Drop or rename it; nothing but a history of barriers stands there',
            mv=backfill.get('name')
        ) -%}
    {%- endif -%}
{% endmacro %}


{% macro _check_mv_is_ours(backfill, existing) %}
    {%- set properties = {} if existing.is_view else dbt_backfill.read_table_properties(backfill.mv) -%}
    {%- if 'dbt_backfill.id' not in properties -%} {%- do dbt_backfill._refuse_foreign_mv(backfill) -%} {%- endif -%}
    {%- do dbt_backfill.check_state_format(backfill, properties) -%}
    {%- set format = dbt_backfill._get_format_of(properties) -%}
    {%- if format != backfill.options.file_format -%}
        {%- do dbt_backfill.refuse(
            'file_format changed from ' ~ format ~ ' to ' ~ backfill.options.file_format ~ ' since ' ~ backfill.mv.render() ~ ' was made',
            'Undo the change, or drop ' ~ backfill.mv.render() ~ ' and ' ~ backfill.progress.render() ~ ' to build it anew',
            mv=backfill.get('name')
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill._check_properties(backfill, properties) -%}
    {%- do backfill.update({
        'mv_id': properties['dbt_backfill.id'],
        'mv_snapshot_id': properties.get('current-snapshot-id'),
        'mv_reset_id': properties.get('dbt_backfill.reset', ''),
        'docs': properties.get('dbt_backfill.docs'),
        'constraints': dbt_backfill.read_constraints(properties),
    }) -%}
{% endmacro %}


{#- Refuse an MV whose owner, or catalog, has since set a property that exactness needs otherwise. -#}
{% macro _check_properties(backfill, properties) %}
    {%- set exact = dbt_backfill.exact_table_properties(backfill.options.file_format) -%}
    {%- for name, value in exact.items() if properties.get(name, value) | lower != value | lower -%}
        {%- do dbt_backfill.refuse(
            backfill.mv.render() ~ " has the table property '" ~ name ~ "' = '" ~ properties[name]
                ~ "', under which barriers are not exact",
            'ALTER TABLE ' ~ backfill.mv.render() ~ " SET TBLPROPERTIES ('" ~ name ~ "' = '" ~ value ~ "')",
            mv=backfill.get('name')
        ) -%}
    {%- endfor -%}
{% endmacro %}


{#-
    Refuse an Iceberg MV that has left the snapshot of the last barrier: CREATE OR REPLACE, dbt's `table`
    materialization too, keeps the properties and with them our id. A reset replaces the MV itself before it is
    committed or given up. A snapshot that has expired tells nothing, unless the table began anew since that barrier.

    A reset that came late, which Iceberg lets replace a table whatever was committed since, has left its id:
    `backfill.begun_anew` then says why it is reset once more. So it does where the last commit has found that it began
    anew, and where it did and is empty, so that there is nothing to lose.
-#}
{% macro _check_mv_was_not_replaced(backfill, state) %}
    {%- set begun_anew = backfill.mv.render() ~ ' was begun anew, as by a full refresh that came late' -%}
    {%- set known = state.committed.get('mv_snapshot_id') -%}
    {%- if state.committed.get('begun_anew') -%} {%- do backfill.update({'begun_anew': begun_anew}) -%} {%- endif -%}
    {%- set planned = state.get('planned') -%}
    {%- if known in [none, backfill.mv_snapshot_id] or planned and not dbt_backfill.get_traits(planned).follows -%}
        {{ return(none) }}
    {%- elif backfill.mv_reset_id != (state.committed.get('mv_reset_id') or '') -%}
        {%- do backfill.update({'begun_anew': begun_anew}) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set history = dbt_backfill.run_json(
        'read the history of ' ~ backfill.mv.identifier,
        "select to_json(named_struct('entries', count_if(snapshot_id = " ~ known ~ '), '
            ~ "'ancestors', count_if(snapshot_id = " ~ known ~ ' and is_current_ancestor), '
            ~ "'begun', count_if(is_current_ancestor and parent_id is null and made_current_at > timestamp"
            ~ dbt_backfill.string_literal(state.committed.committed_at) ~ '), '
            ~ "'rows', (select count(*) from " ~ backfill.mv.render() ~ '))) from ' ~ backfill.mv.render() ~ '.history'
    )[0] -%}
    {%- if (history.entries or history.begun) and not history.ancestors -%}
        {%- if history.begun and not history.rows -%}
            {%- do backfill.update({'begun_anew': begun_anew}) -%}
            {{ return(none) }}
        {%- endif -%}
        {%- do dbt_backfill.refuse(
            backfill.mv.render() ~ ' was replaced or rolled back by something else since the barrier ' ~ state.epoch
                ~ ', which left it at the snapshot ' ~ known,
            'Undo that, or drop it and ' ~ backfill.progress.render() ~ ' to build it anew',
            mv=backfill.get('name')
        ) -%}
    {%- endif -%}
{% endmacro %}


{% macro _check_state(backfill, state) %}
    {%- if not state.committed or state.committed.backfill_id != backfill.mv_id -%}
        {%- do dbt_backfill.refuse(
            'its state ' ~ backfill.progress.render() ~ ' belongs to another MV',
            'Restore the one that was made with ' ~ backfill.mv.render() ~ ', or drop both to build it anew',
            mv=backfill.get('name')
        ) -%}
    {%- elif state.epoch != state.last_epoch or state.epoch != state.committed.epoch
            or state.rows != state.committed.vnode_count and not dbt_backfill.is_abandoned_reset(state.committed) -%}
        {%- do dbt_backfill.refuse(
            backfill.progress.render() ~ ' is damaged: it has ' ~ state.rows ~ ' rows for ' ~ state.committed.vnode_count
                ~ ' vnodes, of the epochs ' ~ state.epoch ~ ' to ' ~ state.last_epoch,
            'Restore an earlier version of it, or drop it with ' ~ backfill.mv.render() ~ ' to build the MV anew',
            mv=backfill.get('name')
        ) -%}
    {%- endif -%}
{% endmacro %}
