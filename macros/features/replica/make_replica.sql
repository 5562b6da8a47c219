{#-
    Copy what is ahead of the position, or the next `replica_rows` of it, at the plan's version. Returns the source of it; none where
    the MV's format cannot keep its rows.
-#}
{% macro make_replica(backfill, state, plan, evidence) %}
    {%- set columns, id = dbt_backfill.get_needed_columns(backfill, plan), local_md5(plan.plan_id ~ 'replica') -%}
    {%- if not dbt_backfill._can_make(backfill, plan, columns) -%} {{ return(none) }} {%- endif -%}
    {%- set bounds = ([plan.range_high] if not plan.last_range else []) + (plan.next_bounds or []) -%}
    {%- set ranges = dbt_backfill.count_ranges_of_replica(backfill, plan, bounds) -%}
    {%- set begun = modules.datetime.datetime.now() -%}
    {%- set sql = dbt_backfill.get_replica_sql(backfill, state, plan, columns, bounds[:ranges] if ranges else bounds, ranges is not none, id) -%}
    {%- set handler = dbt_backfill.upstream_traits(backfill.upstream).lost_conditions -%}
    {#- Not every Iceberg table can be replaced: its format is never an older one, and a Hive metastore compares the columns by their places. -#}
    {%- if backfill.options.file_format == 'iceberg' -%} {%- do dbt_backfill._drop_own_replica(backfill) -%} {%- endif -%}
    {#- Where Spark says so, whether files of the upstream are gone. -#}
    {%- if handler -%}
        {%- set sql -%}
            begin
                declare lost boolean default false;
                {{ dbt_backfill.get_staging_statements([sql], handler, 'set lost = true') }}
                select lost;
            end
        {%- endset -%}
    {%- endif -%}
    {%- set told = dbt_backfill.run_table('copy the rows that are ahead', sql) -%}
    {%- if handler and told[0][0] | string | lower == 'true' -%}
        {%- do dbt_backfill.refuse(
            'files of the version ' ~ dbt_backfill.get_source(plan).version ~ ' of ' ~ backfill.upstream.relation.render()
                ~ ' were deleted while it was copied', 'Nothing is lost; run again to continue'
        ) -%}
    {%- endif -%}
    {%- set made = dbt_backfill.read_replica(backfill) -%}
    {%- if made.id != id -%}
        {%- do dbt_backfill.refuse('another run has copied its upstream meanwhile', 'Nothing is lost; run again to continue') -%}
    {%- endif -%}
    {%- do adapter.cache_added(backfill.replica.incorporate(type='table')) -%}
    {%- do log(
        dbt_backfill.get_model_name(model) ~ ': copied ' ~ columns | length ~ ' columns of ' ~ backfill.upstream.relation.render() ~ ' into '
            ~ backfill.replica.render() ~ ' in ' ~ '{:,.1f}'.format((modules.datetime.datetime.now() - begun).total_seconds()) ~ ' s',
        info=true
    ) -%}
    {{ return({
        'role': 'replica', 'relation': backfill.replica.render(), 'kind': backfill.options.file_format, 'id': id, 'version': made.version,
        'definition': tojson({
            'version': dbt_backfill.get_source(plan).version, 'query_hash': plan.query_hash, 'query_columns': plan.query_columns,
            'vnodes': backfill.options.backfill_vnodes, 'vnode_count': plan.vnode_count, 'columns': columns | map(attribute='name') | list,
            'ranges': ranges, 'scans': (evidence or {}).get('scans'),
        }),
    }) }}
{% endmacro %}


{#- {'version', 'id'} of the one that is there. The version is read first: with this id it is of this one, whatever came later. -#}
{% macro read_replica(backfill) %}
    {%- set version = none if backfill.options.file_format == 'iceberg' else dbt_backfill.read_version(backfill, 'replica') -%}
    {%- set properties = dbt_backfill.read_table_properties(backfill.replica) -%}
    {{ return({'id': properties.get('dbt_backfill.replica'), 'version': version or properties.get('current-snapshot-id', 'none')}) }}
{% endmacro %}


{#- Whether its columns can be kept, and nothing else stands in its place: refused where a replica is asked for. -#}
{% macro _can_make(backfill, plan, columns) %}
    {%- set existing, is_asked_for = dbt_backfill.load_table(backfill.replica), backfill.options.replicate == 'always' -%}
    {%- if existing is not none and 'dbt_backfill.replica' not in dbt_backfill.read_listed_properties(existing, backfill.replica) -%}
        {%- if not is_asked_for -%} {{ return(false) }} {%- endif -%}
        {%- do dbt_backfill.refuse(
            backfill.replica.render() ~ ', where its replica would stand, is a table of others',
            "Set replicate='never', or give that table another name"
        ) -%}
    {%- endif -%}
    {%- set properties = dbt_backfill._get_replica_properties(backfill, plan, columns, '') -%}
    {%- for column in columns -%}
        {%- set why = dbt_backfill.why_no_type(column.type, properties) -%}
        {%- if why and not is_asked_for -%} {{ return(false) }} {%- endif -%}
        {%- if why -%}
            {%- do dbt_backfill.refuse(
                'its replica cannot have the column ' ~ column.name ~ ' of the type ' ~ column.type ~ ', because ' ~ why, "Set replicate='never'"
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(true) }}
{% endmacro %}


{#-
    Each part holds the keys of one range, or of some ranges next to each other, in a directory of its own: parts by hash, which Spark
    distributes by, would have the keys of any two. A part that is large is shared out among tasks, each of which sorts and writes its
    rows: Spark does so where a distribution is a hint, and statistics are known as it goes (`spark.sql.adaptive.enabled`, as a rule).

    Arguments:
      bounds (list): of the ranges ahead.
      limited (boolean): whether what lies beyond the last one is left out.
-#}
{% macro get_replica_sql(backfill, state, plan, columns, bounds, limited, id) -%}
    {%- set window = {
        'range_low': plan.range_low, 'last_range': not limited, 'range_high': bounds[-1] if limited else none,
        'vnodes': backfill.options.backfill_vnodes, 'vnode_count': plan.vnode_count,
    } -%}
    {%- set scan = dbt_backfill.get_range_scan_sql(
        dbt_backfill.get_planned_read(backfill, plan), window, state, backfill, plan.key, with_null_keys=true
    ) -%}
    {%- set keys = dbt_backfill.upstream_columns(plan.key) -%}
    {#- The formats keep statistics of the first columns of a table. -#}
    {%- set of_key, names, others = plan.key | map(attribute='upstream') | map('lower') | list, [], [] -%}
    {%- for column in columns -%} {%- do (names if column.name | lower in of_key else others).append(column.name) -%} {%- endfor -%}
    {%- set names = names + others -%}
    create or replace table {{ backfill.replica.render() }}
    {{ dbt_backfill.get_clauses_of_copy(backfill, backfill.replica, dbt_backfill._get_replica_properties(backfill, plan, columns, id)) }}
    partitioned by (__bf_part)
    as
    select /*+ rebalance(__bf_part) */ {{ dbt_backfill.identifiers(names) }}, {{ dbt_backfill._get_part_sql(plan.key, keys, dbt_backfill._thinned(bounds), 0) }} as __bf_part
    from (
        {{ scan }}
    )
    sort by __bf_part, {{ keys | join(', ') }}
{%- endmacro %}


{#- The number of the part of a row, as a search by halves. -#}
{% macro _get_part_sql(keys, columns, bounds, first) -%}
    {%- if not bounds -%} {{ return(first | string) }} {%- endif -%}
    {%- set middle = bounds | length // 2 -%}
    {{ return('if(' ~ dbt_backfill.ordered_predicate(keys, columns, '<=', bounds[middle]) ~ ', '
        ~ dbt_backfill._get_part_sql(keys, columns, bounds[:middle], first) ~ ', '
        ~ dbt_backfill._get_part_sql(keys, columns, bounds[middle + 1:], first + middle + 1) ~ ')') }}
{%- endmacro %}


{#- At most 63 of them: Spark compiles no expression that is much longer. -#}
{% macro _thinned(bounds) %}
    {%- set step = bounds | length // 64 + 1 -%}
    {{ return(bounds[step - 1::step]) }}
{% endmacro %}


{#- Statistics are kept of the key alone, which stands first: files are skipped by nothing else. -#}
{% macro _get_replica_properties(backfill, plan, columns, id) %}
    {%- set names, types = columns | map(attribute='name') | list, columns | map(attribute='type') | list -%}
    {%- set own, indexed = {'dbt_backfill.replica': id}, plan.key | length | string -%}
    {%- if backfill.options.file_format == 'iceberg' -%}
        {%- do own.update({'write.distribution-mode': 'none', 'write.metadata.metrics.max-inferred-column-defaults': indexed}) -%}
    {%- else -%}
        {%- do own.update(dbt_backfill.get_needed_features(names + types, types)) -%}
        {%- do own.update({'delta.dataSkippingNumIndexedCols': indexed}) -%}
    {%- endif -%}
    {{ return(dict(own, **dbt_backfill.ask(backfill.upstream, 'copy_properties')(dbt_backfill.get_source(plan)))) }}
{% endmacro %}


{#- Drop it once nothing is to be read from it any more, that of a run that died among them. -#}
{% macro release_replica(backfill, state) %}
    {%- set source = dbt_backfill.get_source(state.committed, 'replica') -%}
    {%- set is_used = source and source.get('version') is not none and not state.finished -%}
    {#- Where tables are looked up by a statement, only if there has been one. -#}
    {%- if not is_used and not state.get('planned') and (source or not dbt_backfill.get_catalog(backfill.replica)) -%}
        {%- do dbt_backfill._drop_own_replica(backfill) -%}
    {%- endif -%}
{% endmacro %}


{% macro _drop_own_replica(backfill) %}
    {%- set is_listed = dbt_backfill.load_table(backfill.replica) is not none -%}
    {%- set properties = dbt_backfill.find_own_copy(backfill.replica, 'dbt_backfill.replica') if is_listed else none -%}
    {%- if properties is not none -%}
        {%- set file_format, root = backfill.options.file_format, config.get('location_root') -%}
        {%- do dbt_backfill.run_table('drop the replica', dbt_backfill.get_drop_copy_sql(file_format, backfill.replica, properties)) -%}
        {%- do adapter.cache_dropped(backfill.replica) -%}
        {%- if file_format == 'delta' and root -%}
            {%- do log(
                dbt_backfill.get_model_name(model) ~ ': dropped ' ~ backfill.replica.render() ~ '; its files stay in ' ~ root ~ '/'
                    ~ backfill.replica.identifier, info=true
            ) -%}
        {%- endif -%}
    {%- endif -%}
{% endmacro %}


{#-
    Release a replica if so much of a range has changed since it was made that reading these changes for each range costs more than another
    copy. The next plan makes another one where that is worth it. The table stays, because its versions would begin anew. Return true if
    it was released.

    Arguments:
      result (dict): of the script that planned the barrier, see get_plan_script.
-#}
{% macro run_release_of_outgrown(backfill, result) %}
    {%- set changed, rows = (result.get('overlaid') or {}).get('count', 0), (result.get('checked') or {}).get('row_count', 0) -%}
    {%- if 2 * changed <= [rows, 1000] | max -%} {{ return(false) }} {%- endif -%}
    {%- do dbt_backfill.run_table(
        'let go of the replica', dbt_backfill.get_set_properties_sql(backfill.replica, {'dbt_backfill.replica': 'outgrown'})
    ) -%}
    {{ return(true) }}
{% endmacro %}
