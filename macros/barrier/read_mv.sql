{#- The properties of the MV, {} of a view. `existing`: as load_table returned it. -#}
{% macro read_mv_properties(backfill, existing) %}
    {{ return({} if existing and existing.is_view else dbt_backfill.read_table_properties(backfill.mv)) }}
{% endmacro %}


{#-
    What the properties of an MV that exists tell, which is refused if it is not ours: {
      'id': of its backfill,
      'snapshot_id': its current one, on Iceberg; none on Delta,
      'reset_id': see get_reset_id,
      'docs': see apply_docs, none if it has none,
      'constraints': see read_constraints,
      'original': see find_original,
      'partitions': see read_partitions
    }
-#}
{% macro read_mv(backfill, properties) %}
    {%- if 'dbt_backfill.id' not in properties -%} {%- do dbt_backfill.refuse_foreign_mv(backfill) -%} {%- endif -%}
    {%- do dbt_backfill.check_state_format(backfill, properties) -%}
    {%- set format = dbt_backfill.get_format_of(properties) -%}
    {%- if format != backfill.options.file_format -%}
        {%- do dbt_backfill.refuse(
            'file_format changed from ' ~ format ~ ' to ' ~ backfill.options.file_format ~ ' since ' ~ backfill.mv.render() ~ ' was made',
            'Undo the change, or drop ' ~ backfill.mv.render() ~ ' and ' ~ backfill.progress.render() ~ ' to build it anew',
            mv=backfill.get('name')
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill._check_properties(backfill, properties) -%}
    {{ return({
        'id': properties['dbt_backfill.id'],
        'snapshot_id': properties.get('current-snapshot-id'),
        'reset_id': properties.get('dbt_backfill.reset', ''),
        'docs': properties.get('dbt_backfill.docs'),
        'constraints': dbt_backfill.read_constraints(properties),
        'original': dbt_backfill.find_original(backfill.mv, properties),
        'partitions': dbt_backfill.read_partitions(properties),
    }) }}
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
    Why the MV is to be reset once more although nobody asked for it, because a reset of before came late: this run finds
    it so, or the last commit did. None where it goes on; one that something else has replaced is refused.
-#}
{% macro find_new_beginning(backfill, mv, state) %}
    {%- set departure = dbt_backfill.find_departure(backfill, mv.snapshot_id, mv.reset_id, state) -%}
    {%- if departure is not none and not departure.begun_anew -%}
        {%- do dbt_backfill.refuse(
            backfill.mv.render() ~ ' was replaced or rolled back by something else since the barrier ' ~ state.epoch
                ~ ', which left it at the snapshot ' ~ state.committed.mv_snapshot_id,
            'Undo that, or drop it and ' ~ backfill.progress.render() ~ ' to build it anew, ' ~ dbt_backfill.or_adopt_text(backfill),
            mv=backfill.get('name')
        ) -%}
    {%- elif departure is not none or state.committed.get('begun_anew') -%}
        {{ return(backfill.mv.render() ~ ' was begun anew, as by a full refresh that came late') }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#-
    How an Iceberg MV has left the snapshot of the last barrier: none, or {
      'begun_anew': whether by a reset of ours that came late, which Iceberg lets replace a table whatever was committed
          since: it has left its id and another oldest ancestor, or the table began anew and is empty, so that there is
          nothing to lose,
      'rows': it has now
    }

    CREATE OR REPLACE, dbt's `table` materialization too, keeps the properties and with them our id. A reset replaces the
    MV itself before it is committed or given up. Two runs may both have executed one reset, and the id is that of the last:
    so it counts only where the oldest ancestor is another one than at the last commit. A snapshot that has expired tells
    nothing, unless the table began anew since that barrier.

    Arguments:
      relations (dict): see get_relations.
      snapshot_id (string), reset_id (string): of the MV now, see read_mv.
-#}
{% macro find_departure(relations, snapshot_id, reset_id, state) %}
    {%- set committed, planned = state.committed, state.get('planned') -%}
    {%- if committed.get('mv_snapshot_id') in [none, snapshot_id]
            or planned and (dbt_backfill.replaces_mv(planned) or planned.kind == 'abandon') -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set history = dbt_backfill.read_mv_history(relations, committed) -%}
    {%- if history.ancestors -%}
        {{ return(none) }}
    {%- elif reset_id != (committed.get('mv_reset_id') or '')
            and (history.get('root') is none or history.root != committed.get('mv_root_id')) -%}
        {{ return({'begun_anew': true, 'rows': history.rows}) }}
    {%- elif not (history.entries or history.begun) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return({'begun_anew': history.begun > 0 and not history.rows, 'rows': history.rows}) }}
{% endmacro %}


{#-
    What an Iceberg MV tells of the snapshot at which a barrier left it: {'entries', 'ancestors': how often it stands in the
    history, and among those that lead to the current one; 'begun': whether the table began anew after the barrier; 'root':
    the oldest ancestor of the current one, absent if it has expired; 'rows'}.
-#}
{% macro read_mv_history(relations, committed) %}
    {%- set known = committed.mv_snapshot_id -%}
    {{ return(dbt_backfill.run_json(
        'read the history of ' ~ relations.mv.identifier,
        "select to_json(named_struct('entries', count_if(snapshot_id = " ~ known ~ '), '
            ~ "'ancestors', count_if(snapshot_id = " ~ known ~ ' and is_current_ancestor), '
            ~ "'begun', count_if(is_current_ancestor and parent_id is null and made_current_at > timestamp"
            ~ dbt_backfill.string_literal(committed.committed_at) ~ '), '
            ~ "'root', max(if(is_current_ancestor and parent_id is null, cast(snapshot_id as string), null)), "
            ~ "'rows', (select count(*) from " ~ relations.mv.render() ~ '))) from ' ~ relations.mv.render() ~ '.history',
        relations.mv
    )[0]) }}
{% endmacro %}
