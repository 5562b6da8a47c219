{#-
    This file makes the replica, `<mv>__replica`: a copy of the rows of the upstream that are still to be read, with the columns that the query needs.
    The files of the replica are ordered by the key, with about one file for each range ahead. If the files of the upstream are not ordered by the
    key, each range would read the whole upstream without a replica.

    The replica only provides the rows of a range; the plan does not depend on the replica. A range has the replica's rows. If a key has changed
    since the replica was made, the range has the new row of this key instead, see get_copied_source. The range is read from the upstream itself if
    these changes are not known, or if the run executes a plan of another run.

    A plan contains the replica as the source of the role `replica`: {
      'relation', 'kind', 'id': an id of the replica's creation, 'version': the version of the replica's table; none if the replica must not be read
        any more,
      'definition': as JSON {
        'version': the version of the upstream that was copied, as text, 'query_hash', 'query_columns': the hash and columns of the query,
        'vnodes', 'vnode_count': the vnodes whose rows were copied, 'columns': the names of the upstream's columns that were copied,
        'ranges': how many of the next ranges were copied; none for all ranges,
        'scans': see get_bounds_sql; none if not known
      }
    }
-#}


{#- Return the replica of the committed plan if the next range can be read from it; else none. `seen`: the id of a replica that this run knows. -#}
{% macro find_replica(backfill, state, observed, seen=none) %}
    {%- set source = dbt_backfill.get_source(state.committed, 'replica') -%}
    {%- if not source or source.get('version') is none or not dbt_backfill.may_replicate(backfill) -%} {{ return(none) }} {%- endif -%}
    {%- set noted = fromjson(source.definition) -%}
    {%- set upstream = dict(dbt_backfill.get_source(state.committed), version=noted.version, committed_at=none) -%}
    {%- set fits_query = noted.query_hash == backfill.query_hash and noted.query_columns == state.committed.query_columns -%}
    {#- The replica must have the rows of all vnodes that are read. If it has only some ranges, the next ranges must have the same size. -#}
    {%- set selected = backfill.options.backfill_vnodes -%}
    {%- set fits_ranges = noted.vnode_count == state.committed.vnode_count
        and (noted.ranges is none or noted.ranges > 0 and state.committed.get('backfill_rate_limit') == backfill.options.backfill_rate_limit)
        and (noted.vnodes is none or selected is not none and selected | reject('in', noted.vnodes) | list == []) -%}
    {%- if source.relation != backfill.replica.render() or not fits_query or not fits_ranges
            or not dbt_backfill.ask(backfill.upstream, 'continues_upstream')(observed, upstream)
            or dbt_backfill.load_table(backfill.replica) is none -%}
        {{ return(none) }}
    {%- endif -%}
    {#- The expression of a volatile column may have changed and may now read a column that was not copied. -#}
    {%- set needed = dbt_backfill.get_needed_columns(backfill, dict(state.committed, query=backfill.query))
        if backfill.options.volatile_columns and backfill.query != state.committed.query else [] -%}
    {%- if needed | map(attribute='name') | reject('in', noted.columns) | list -%} {{ return(none) }} {%- endif -%}
    {#- Another run may have replaced the replica. Also, the replica's version may expire, for example if somebody compacts all tables of a
        schema. -#}
    {%- if seen == source.id -%} {{ return(source) }} {%- endif -%}
    {{ return(source if dbt_backfill.read_replica(backfill) == {'id': source.id, 'version': source.version} else none) }}
{% endmacro %}


{#- True if a replica can be made at all, and the model allows it. -#}
{% macro may_replicate(backfill) %}
    {{ return(backfill.options.replicate != 'never' and dbt_backfill.why_no_replica(backfill.upstream, backfill.feed, backfill.options) is none) }}
{% endmacro %}


{#-
    Return why no replica can be made, see make_replica; none if a replica can be made. A replica needs the format of the upstream, because a table of
    another format may change the types of the columns. If the model has the user's own change table, no replica is made, because the owner may delete
    changes from that table. A replica needs check_key: if a key appears twice, the feed does not always report that one of its two rows was deleted.
-#}
{% macro why_no_replica(upstream, feed, options) %}
    {%- set name, format = upstream.relation.render(), dbt_backfill.upstream_traits(upstream).copy_format -%}
    {{ return(name ~ ' is a live table' if format is none
        else 'the changes of ' ~ name ~ ' are read from ' ~ feed.relation.render() if feed
        else 'file_format is ' ~ options.file_format ~ ', while ' ~ name ~ ' is ' ~ format if format != options.file_format
        else 'check_key is false' if not options.check_key else none) }}
{% endmacro %}


{#- Return the choice. If the range is to be read from a replica, the plan gets a source of the role `replica`, and the choice gets this source as
    'copy'. This macro makes a missing replica. A plan that reads no replica still records the last replica, without a version, because the record has
    the number of scans without a replica. `found`: the result of find_replica. -#}
{% macro choose_replica(backfill, state, choice, found) %}
    {%- set plan, last = choice.plan, dbt_backfill.get_source(state.committed, 'replica') -%}
    {%- set without = dict(choice, plan=dict(plan, sources=dbt_backfill.with_void_copy(plan.sources, [last] if last else []))) -%}
    {%- if state.finished -%}
        {#- A run may have died after the last range and before it dropped the replica. Record that the replica is not read, so that after_run drops
            this replica. -#}
        {{ return(without if last and last.get('version') is not none else choice) }}
    {%- elif not dbt_backfill.may_replicate(backfill) -%}
        {{ return(without) }}
    {%- elif plan.kind != 'advance' or not (plan.last_range or plan.get('range_high') != plan.get('range_low')) -%}
        {#- A replica of only some ranges records the number of these ranges, so their bounds must stay the same. -#}
        {%- set keeps_it = found and plan.kind in ['advance', 'fill']
            and (dbt_backfill.is_whole(found) or plan.get('next_bounds') == state.committed.get('next_bounds')) -%}
        {{ return(dict(choice, plan=dict(plan, sources=plan.sources + [found])) if keeps_it else without) }}
    {%- endif -%}
    {%- set evidence = plan.get('evidence') or dbt_backfill.get_known_evidence(state, last) -%}
    {%- set has_it = found and plan.query_columns == fromjson(found.definition).query_columns
        and (dbt_backfill.is_whole(found) or not plan.get('evidence') and not plan.last_range) -%}
    {%- set wanted = not has_it and dbt_backfill.wants_replica(backfill, plan, evidence) -%}
    {%- if not has_it and evidence and evidence.get('scans') is not none and dbt_backfill.count_ranges_ahead(plan) > 1 -%}
        {%- do log(
            dbt_backfill.get_model_name(model) ~ ': ' ~ dbt_backfill.get_scans_text(backfill, plan, evidence)
                ~ (', so these rows are copied in the order of the key' if wanted else ', which is too little for a copy'),
            info=wanted
        ) -%}
    {%- endif -%}
    {%- set source = found if has_it else dbt_backfill.make_replica(backfill, state, plan, evidence) if wanted else none -%}
    {%- if not source -%} {{ return(without) }} {%- endif -%}
    {%- set noted = fromjson(source.definition) -%}
    {%- set carried = dict(source, definition=tojson(dict(noted, ranges=noted.ranges - 1))) if noted.ranges else source -%}
    {{ return(dict(choice, copy=source, plan=dict(plan, sources=plan.sources + [carried]))) }}
{% endmacro %}


{#- Return what an earlier run measured, as its replica `source` records: {'scans', 'rows': how many are still to be read}; else none. -#}
{% macro get_known_evidence(state, source) %}
    {%- set scans = fromjson(source.definition).get('scans') if source else none -%}
    {{ return({'scans': scans, 'rows': (state.committed.get('upstream_row_count') or 0) - state.row_count} if scans else none) }}
{% endmacro %}


{#-
    True if a replica is to be made for a plan that has no replica. To copy the upstream and read the copy costs about as much as two scans of the
    upstream, plus one scan for each part, see docs/replica.md. `auto` makes a replica if the ranges ahead would read many more rows than these scans.
-#}
{% macro wants_replica(backfill, plan, evidence) %}
    {%- set ahead = dbt_backfill.count_ranges_ahead(plan) -%}
    {%- if ahead == 1 or backfill.options.replicate != 'auto' -%} {{ return(ahead > 1 and backfill.options.replicate == 'always') }} {%- endif -%}
    {%- if not evidence or evidence.get('scans') is none -%} {{ return(false) }} {%- endif -%}
    {%- set spared = [evidence.scans, ahead] | min - 2 - dbt_backfill.count_parts(backfill, plan) -%}
    {#- Making a replica costs several statements. A replica must save reading at least this number of rows. -#}
    {{ return(spared * evidence.rows >= 10000000) }}
{% endmacro %}


{#- Return in how many parts the ranges ahead would be copied. -#}
{% macro count_parts(backfill, plan) %}
    {%- set ahead, per_part = dbt_backfill.count_ranges_ahead(plan), dbt_backfill._count_ranges_of_part(backfill, plan) -%}
    {{ return((ahead / per_part) | round(0, 'ceil') | int if per_part else 1) }}
{% endmacro %}


{#- Return how many ranges a part has, according to the option `replica_rows`; none if all ranges ahead are copied together. If only some vnodes move,
    all ranges are copied together: each barrier finds the bounds of these vnodes again, but a part must end at a known bound. -#}
{% macro _count_ranges_of_part(backfill, plan) %}
    {%- set limit, range_size = backfill.options.get('replica_rows'), backfill.options.backfill_rate_limit -%}
    {%- set is_divided = limit and range_size and plan.get('vnodes') is none -%}
    {{ return([limit // range_size, 1] | max if is_divided else none) }}
{% endmacro %}


{#- Return a text such as `40 ranges ahead would read 39.8 times the 15,000,000 rows of shop.orders that are left: 597,000,000 rows in all, while a
    copy costs about as much as 45,000,000`. -#}
{% macro get_scans_text(backfill, plan, evidence) %}
    {%- set scans = [evidence.scans, dbt_backfill.count_ranges_ahead(plan)] | min -%}
    {{ return(dbt_backfill.get_ranges_text(plan) ~ ' ahead would read ' ~ dbt_backfill.get_count_text('%.1f' | format(scans)) ~ ' times the '
        ~ dbt_backfill.get_count_text(evidence.rows) ~ ' rows of ' ~ backfill.upstream.relation.render() ~ ' that are left: '
        ~ dbt_backfill.get_count_text('%.0f' | format(scans * evidence.rows)) ~ ' rows in all, while a copy costs about as much as '
        ~ dbt_backfill.get_count_text((2 + dbt_backfill.count_parts(backfill, plan)) * evidence.rows)) }}
{% endmacro %}


{#- Return how many ranges are known to be ahead, including the range of the plan. -#}
{% macro count_ranges_ahead(plan) %}
    {{ return((plan.get('next_bounds') or []) | length + (1 if plan.last_range else 2)) }}
{% endmacro %}


{#- Return a text such as `40 ranges` or, if the later bounds are not known yet, `more than 40 ranges`. -#}
{% macro get_ranges_text(plan) %}
    {%- set ahead = dbt_backfill.count_ranges_ahead(plan) -%}
    {{ return(('' if plan.get('bounds_complete') or plan.last_range else 'more than ') ~ dbt_backfill.get_count_text(ahead, 'range')) }}
{% endmacro %}


{#- Copy the rows ahead of the position, or the next `replica_rows` of them, at the plan's version. Return the source of the copy; none if the MV's
    format cannot keep these rows, or if another table has the replica's name. With `replicate: always`, refuse these cases. -#}
{% macro make_replica(backfill, state, plan, evidence) %}
    {%- set columns, id = dbt_backfill.get_needed_columns(backfill, plan), local_md5(plan.plan_id ~ 'replica') -%}
    {#- The key's columns come first, and the replica keeps statistics only for them, because barriers skip files only by the key. -#}
    {%- set types, indexed = columns | map(attribute='type') | list, plan.key | length | string -%}
    {%- set own = {'write.distribution-mode': 'none', 'write.metadata.metrics.max-inferred-column-defaults': indexed}
        if backfill.options.file_format == 'iceberg' else dict(
            dbt_backfill.get_needed_features(columns | map(attribute='name') | list + types, types), **{'delta.dataSkippingNumIndexedCols': indexed}
        ) -%}
    {%- set copied = dbt_backfill.ask(backfill.upstream, 'copy_properties')(dbt_backfill.get_source(plan)) -%}
    {%- set properties = dict({'dbt_backfill.replica': id}, **dict(own, **copied)) -%}
    {%- set existing, mistakes = dbt_backfill.load_table(backfill.replica), [] -%}
    {%- if existing is not none and 'dbt_backfill.replica' not in dbt_backfill.read_listed_properties(existing, backfill.replica) -%}
        {%- do mistakes.append({
            'id': 'replica-name-taken', 'fact': backfill.replica.render() ~ ' has the name of its replica, but was not created by this package',
            'change': "Set replicate='never', or give that table another name",
        }) -%}
    {%- endif -%}
    {%- for column in columns if dbt_backfill.why_no_type(column.type, properties) -%}
        {%- set why = dbt_backfill.why_no_type(column.type, properties) -%}
        {%- do mistakes.append({
            'fact': 'its replica cannot have the column ' ~ column.name ~ ' of the type ' ~ column.type ~ ', because ' ~ why,
            'id': 'replica-column-type', 'change': "Set replicate='never'",
        }) -%}
    {%- endfor -%}
    {%- if mistakes and backfill.options.replicate == 'always' -%}
        {%- do dbt_backfill.refuse(mistakes[0].fact, mistakes[0].change, id=mistakes[0].id) -%}
    {%- endif -%}
    {%- if mistakes -%} {{ return(none) }} {%- endif -%}
    {%- set bounds = ([plan.range_high] if not plan.last_range else []) + (plan.next_bounds or []) -%}
    {#- A part does not go beyond the last known bound. If no bound is known, all rows ahead are copied. -#}
    {%- set most = dbt_backfill._count_ranges_of_part(backfill, plan) -%}
    {%- set is_whole = most is none or most > bounds | length and plan.bounds_complete -%}
    {%- set ranges = none if is_whole else [most, bounds | length] | min -%}
    {%- set begun = modules.datetime.datetime.now() -%}
    {%- set sql = dbt_backfill.get_replica_sql(backfill, state, plan, columns, bounds[:ranges] if ranges else bounds, not is_whole, properties) -%}
    {%- set handler = dbt_backfill.upstream_traits(backfill.upstream).lost_conditions -%}
    {#- Drop the previous replica, because some Iceberg tables cannot be replaced. The format version of a table cannot become lower, and a Hive
        metastore compares columns by their positions. -#}
    {%- if backfill.options.file_format == 'iceberg' -%} {%- do dbt_backfill.drop_own_replica(backfill) -%} {%- endif -%}
    {#- If Spark reports that files of the upstream do not exist any more, the script catches this condition and returns `lost`. -#}
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
            'files of version ' ~ dbt_backfill.get_source(plan).version ~ ' of ' ~ backfill.upstream.relation.render()
                ~ ' were deleted while this run copied that version',
            "Nothing is lost; run again to continue. If this repeats, keep the upstream's versions for longer, or set replicate='never'",
            id='replica-files-deleted') -%}
    {%- endif -%}
    {%- set made = dbt_backfill.read_replica(backfill) -%}
    {%- if made.id != id -%}
        {%- do dbt_backfill.refuse(
            'another run copied the upstream at the same time', 'Nothing is lost; run again to continue, and let only one run of the model work at a time',
            id='replica-by-another-run') -%}
    {%- endif -%}
    {%- do adapter.cache_added(backfill.replica.incorporate(type='table')) -%}
    {%- set seconds = (modules.datetime.datetime.now() - begun).total_seconds() -%}
    {%- do log(
        dbt_backfill.get_model_name(model) ~ ': copied ' ~ columns | length ~ ' columns of ' ~ backfill.upstream.relation.render() ~ ' into '
            ~ backfill.replica.render() ~ ' in ' ~ dbt_backfill.get_count_text('%.1f' | format(seconds)) ~ ' s',
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


{#- Return {'version', 'id'} of the existing replica. The version is read first: if the id is still the same, they belong together. -#}
{% macro read_replica(backfill) %}
    {%- set version = none if backfill.options.file_format == 'iceberg' else dbt_backfill.read_version(backfill, 'replica') -%}
    {%- set properties = dbt_backfill.read_table_properties(backfill.replica) -%}
    {{ return({'id': properties.get('dbt_backfill.replica'), 'version': version or properties.get('current-snapshot-id', 'none')}) }}
{% endmacro %}


{#-
    Return the statement that makes the copy. Each partition `__bf_part` holds the keys of one range, or of some neighbouring ranges, in its own
    directory. A distribution only by hash would mix the keys of several ranges in one file. If adaptive execution is on
    (`spark.sql.adaptive.enabled`, the default), the hint lets Spark split a large partition among several tasks. Each task sorts and writes its rows.
    `bounds`: the bounds of the ranges ahead; `limited`: true if rows beyond the last bound are left out.
-#}
{% macro get_replica_sql(backfill, state, plan, columns, bounds, limited, properties) -%}
    {%- set window = {
        'range_low': plan.range_low, 'last_range': not limited, 'range_high': bounds[-1] if limited else none,
        'vnodes': backfill.options.backfill_vnodes, 'vnode_count': plan.vnode_count,
    } -%}
    {%- set read, keys = dbt_backfill.get_planned_read(backfill, plan), dbt_backfill.upstream_columns(plan.key) -%}
    {%- set scan = dbt_backfill.get_range_scan_sql(read, window, state, backfill, plan.key, with_null_keys=true) -%}
    {#- The key's columns come first, because the formats keep statistics only for the first columns of a table. -#}
    {%- set of_key, names, others = plan.key | map(attribute='upstream') | map('lower') | list, [], [] -%}
    {%- for column in columns -%} {%- do (names if column.name | lower in of_key else others).append(column.name) -%} {%- endfor -%}
    {#- At most 63 of the bounds divide the rows: Spark cannot compile a much longer expression. -#}
    {%- set names, step = names + others, bounds | length // 64 + 1 -%}
    {%- set part = dbt_backfill._get_part_sql(plan.key, keys, bounds[step - 1::step], 0) -%}
    create or replace table {{ backfill.replica.render() }}
    {{ dbt_backfill.get_clauses_of_copy(backfill, backfill.replica, properties) }}
    partitioned by (__bf_part)
    as
    select /*+ rebalance(__bf_part) */ {{ dbt_backfill.identifiers(names) }}, {{ part }} as __bf_part
    from (
        {{ scan }}
    )
    sort by __bf_part, {{ keys | join(', ') }}
{%- endmacro %}


{#- Return a SQL expression of the number of a row's part: nested IFs, which search the bounds like a binary search. -#}
{% macro _get_part_sql(keys, columns, bounds, first) -%}
    {%- if not bounds -%} {{ return(first | string) }} {%- endif -%}
    {%- set middle = bounds | length // 2 -%}
    {{ return('if(' ~ dbt_backfill.ordered_predicate(keys, columns, '<=', bounds[middle]) ~ ', '
        ~ dbt_backfill._get_part_sql(keys, columns, bounds[:middle], first) ~ ', '
        ~ dbt_backfill._get_part_sql(keys, columns, bounds[middle + 1:], first + middle + 1) ~ ')') }}
{%- endmacro %}


{#- Drop the replica, if there is one and it was created by this package. -#}
{% macro drop_own_replica(backfill) %}
    {%- set is_listed = dbt_backfill.load_table(backfill.replica) is not none -%}
    {%- set properties = dbt_backfill.find_own_copy(backfill.replica, 'dbt_backfill.replica') if is_listed else none -%}
    {%- if properties is not none -%}
        {%- set sql = dbt_backfill.get_drop_copy_sql(backfill.options.file_format, backfill.replica, properties) -%}
        {%- do dbt_backfill.run_table('drop the replica', sql) -%}
        {%- do adapter.cache_dropped(backfill.replica) -%}
    {%- endif -%}
{% endmacro %}


{#- Release a replica if many rows of a range have changed since the replica was made. To read these changes for each range would cost more than
    another copy. The next plan may make a new replica. The table is not dropped, because the versions of a new table would start again at 0. Return
    true if the replica was released. `result`: see after_commit. -#}
{% macro run_release_of_outgrown(backfill, result) %}
    {%- set changed, rows = (result.get('overlaid') or {}).get('count', 0), (result.get('checked') or {}).get('row_count', 0) -%}
    {%- if 2 * changed <= [rows, 1000] | max -%} {{ return(false) }} {%- endif -%}
    {%- set sql = dbt_backfill.get_set_properties_sql(backfill.replica, {'dbt_backfill.replica': 'outgrown'}) -%}
    {%- do dbt_backfill.run_table('release the replica', sql) -%}
    {{ return(true) }}
{% endmacro %}
