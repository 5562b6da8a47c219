{#-
    Stage the rows of a plan. A live database has no version that can be read again, so the rows of the plan are read once and kept in `<mv>__staged`.
    The plan gets a version at which these rows, together with later events of the feed, are exact.

    The steps have a fixed order: (1) read which transactions a reader sees, (2) read the rows, (3) read the position of the WAL up to which the rows
    may show commits, (4) wait until the feed has landed up to this position. In another order, rows could be lost or be newer than the version.

    Return {
      'plan': the plan for that version, with the staged rows as a source of the role `stage`; unchanged if nothing has to be staged,
      'unclear': why the rows of the version cannot be known, as the end of a sentence; usually none,
      'waits': what has not landed in the feed yet, as the end of a sentence; none if nothing is missing. If the barrier waits, the next run uses its
        staged rows,
      'seen': the observed state of the upstream. If 'unclear' is set, the upstream was observed again, because the next read of the range must come
        after all events of the feed
    }. `again`: true to read the rows again, even if this run or another run has kept rows. A new read is needed if the kept rows are gone or their
    version is unknown, if the database has lost their commits, or if a user has corrected a value that could not be read.
-#}
{% macro postgres_stage_range(backfill, state, observed, plan, again=false) %}
    {%- if dbt_backfill.get_checked_scan(backfill, state, plan) is none -%}
        {{ return({'plan': plan, 'unclear': none, 'waits': none, 'seen': observed}) }}
    {%- endif -%}
    {%- set columns = dbt_backfill.get_needed_columns(backfill, plan) -%}
    {%- set names, keys = columns | map(attribute='name') | list, plan.key | map(attribute='upstream') | list -%}
    {%- do dbt_backfill.check_postgres_table(observed.facts, names, keys, dbt_backfill.get_name_of(backfill)) -%}
    {%- do dbt_backfill.check_feed_table(backfill.upstream.feed, columns) -%}
    {%- do dbt_backfill.check_postgres_key_zone(observed, plan.key, dbt_backfill.get_name_of(backfill)) -%}
    {%- set left = none if again else dbt_backfill._find_staged(backfill, plan, names) -%}
    {%- set plan = dict(plan, **left.window) if left else plan -%}
    {%- set noted = left or dbt_backfill.run_stage(backfill, state, observed, plan, columns) -%}
    {%- set seconds, kept = backfill.upstream.feed.wait_seconds, noted.columns | map(attribute='name') | list -%}
    {%- set stage = {
        'role': 'stage', 'relation': backfill.staged.render(), 'kind': backfill.options.file_format, 'id': noted.stage, 'version': noted.version,
        'definition': tojson({
            'snapshot': noted.snapshot, 'reached': noted.reached, 'since': noted.since, 'renewed': noted.get('renewed'), 'columns': kept,
        }),
    } -%}
    {%- if noted.landed < noted.reached -%}
        {#- Before a wait, record the staged rows, so that the next run can use them even if this run is stopped while it waits. -#}
        {%- do dbt_backfill.run_table('record what was staged', dbt_backfill.get_set_properties_sql(
            backfill.staged, {'dbt_backfill.staged': tojson(noted)}
        )) -%}
        {%- if not dbt_backfill.postgres_land_feed(backfill.upstream) -%}
            {%- do log(dbt_backfill.get_name_of(backfill) ~ ' has read ' ~ dbt_backfill.get_count_text(noted.rows) ~ ' rows, and waits up to '
                ~ seconds ~ ' s until their changes have landed in ' ~ backfill.upstream.feed.relation.render(), info=true) -%}
        {%- endif -%}
    {%- endif -%}
    {%- set waited = dbt_backfill.run_json(
        'wait for the feed', dbt_backfill.postgres_wait_script(backfill.upstream, observed, noted, stage, seconds)
    )[0] -%}
    {%- set behind = noted.reached - waited.landed -%}
    {%- if left and (not waited.stands or waited.get('altered') or waited.get('recovered')) -%}
        {{ return(dbt_backfill.postgres_stage_range(backfill, state, observed, plan, again=true)) }}
    {%- endif -%}
    {%- if not waited.stands -%} {%- do dbt_backfill.refuse_other_stage(backfill) -%} {%- endif -%}
    {%- do dbt_backfill.refuse_first([
        {'id': 'postgresql-recovered', 'when': waited.get('recovered'),
         'fact': 'the server of its upstream has recovered from a crash since the range was read, so the server may have lost commits that were read',
         'change': 'The MV has lost nothing; run again to continue'},
        {'when': waited.get('altered'), 'id': 'postgresql-value-unreadable', 'fact': 'its upstream has a value in ' ~ waited.get('altered')
            ~ ', an infinity or a time that is too old, which Spark would read as another value',
         'change': 'Correct the value, or leave the column out of the query; if the value is the last day of the year 9999, add check ('
            ~ waited.get('altered') ~ " < 'infinity') to the table"},
    ], mv=backfill.get('name')) -%}
    {%- if behind > 0 -%}
        {%- set waits = dbt_backfill.get_count_text(behind) ~ ' bytes of the WAL have not landed in ' ~ backfill.upstream.feed.relation.render() -%}
        {{ return({'plan': plan, 'unclear': none, 'waits': waits, 'seen': observed}) }}
    {%- endif -%}
    {%- set unclear = 'while its range was read, the feed got an entry that cannot be applied to single rows' if waited.broken
        else dbt_backfill.find_untold(waited.get('notes') or [], plan.key | map(attribute='upstream') | list, observed) -%}
    {%- set seen = observed -%}
    {%- if unclear -%}
        {%- set seen = dbt_backfill.postgres_read_upstream(backfill.upstream, dbt_backfill.get_source(state.get('committed'))) -%}
        {%- do dbt_backfill.postgres_check_feed(seen) -%}
    {%- endif -%}
    {%- set sources = [dict(dbt_backfill.get_source(plan), version=waited.landed | string), stage] -%}
    {{ return({'plan': dict(plan, sources=sources), 'unclear': unclear, 'waits': none, 'seen': seen}) }}
{% endmacro %}


{% macro refuse_other_stage(backfill) %}
    {%- do dbt_backfill.refuse('another run staged rows at the same time as this run',
        'Nothing is lost; run again to continue, and let only one run of the model work at a time', mv=backfill.get('name'),
        id='staged-by-another-run') -%}
{% endmacro %}


{#-
    Read the rows of a plan, and keep them in the table of staged ranges. Return the result of postgres_stage_script with {
      'version': a version of the table of staged ranges. At this version the table has the rows, even if other rows are staged later,
      'columns': the columns that were read,
      'since': the position up to which the feed had landed before the rows were read,
      'renewed': see postgres_read_upstream,
      'window': the fields of the plan that describe its range,
      'plan': the part of the plan that must be the same in a later plan that uses the rows
    }
-#}
{% macro run_stage(backfill, state, observed, plan, columns) %}
    {%- set existing, kept, format = dbt_backfill.load_table(backfill.staged), [], backfill.options.file_format -%}
    {%- for column in columns -%} {%- do kept.append(dict(column, type=dbt_backfill.get_kept_type(column.type, format))) -%} {%- endfor -%}
    {#- The table needs no statistics: it is always read as a whole, so no file is skipped. -#}
    {%- set staged = {
        'relation': backfill.staged, 'columns': kept,
        'clauses': dbt_backfill.get_clauses_of_copy(
            backfill, backfill.staged,
            {'write.metadata.metrics.default': 'none'} if format == 'iceberg' else {'delta.dataSkippingNumIndexedCols': '0'}
        ),
        'anew': existing is not none and dbt_backfill.get_table_columns(backfill.staged)[:-1] != kept,
    } -%}
    {%- set scan = dbt_backfill._get_partitioned_scan(backfill, state, plan, dbt_backfill.get_checked_scan(backfill, state, plan)) -%}
    {%- set step, unbounded = 'stage the rows of the barrier ' ~ plan.epoch, [] -%}
    {%- set finite = observed.facts.columns | selectattr('finite') | map(attribute='name') | list -%}
    {%- for column in columns if column.type == 'timestamp_ntz' and column.name not in finite -%} {%- do unbounded.append(column.name) -%} {%- endfor -%}
    {%- set read = dbt_backfill.run_json(step, dbt_backfill.postgres_stage_script(backfill.upstream, scan, staged, unbounded))[0] -%}
    {%- if read.get('unreadable') -%}
        {%- do dbt_backfill.refuse('its upstream has an infinite value in ' ~ read.unreadable ~ ', which Spark cannot read as timestamp_ntz',
            'Correct the value, or leave the column out of the query', mv=backfill.get('name'), id='postgresql-infinite-timestamp') -%}
    {%- endif -%}
    {%- if read.reached < observed.landed -%}
        {%- do dbt_backfill.refuse_other_database(backfill.upstream.feed.relation, read.reached, observed.landed, dbt_backfill.get_name_of(backfill)) -%}
    {%- endif -%}
    {%- if not read.stands -%} {%- do dbt_backfill.refuse_other_stage(backfill) -%} {%- endif -%}
    {%- set window = {} -%}
    {%- for name in ['range_low', 'range_high', 'last_range', 'fill_low', 'fill_high', 'last_fill', 'next_bounds', 'bounds_complete'] -%}
        {%- do window.update({name: plan.get(name)}) -%}
    {%- endfor -%}
    {{ return(dict(
        read, version=dbt_backfill.read_version(backfill, 'staged'), columns=columns, since=observed.landed, renewed=observed.get('renewed'),
        window=window, plan=dbt_backfill._get_plan_of_stage(plan),
    )) }}
{% endmacro %}


{#- Return a scan that is split into `backfill_partitions` selects, each for a part of the keys with about the same number of rows. Spark executes the
    selects side by side, each with its own connection. Rows that are inserted or deleted meanwhile only make parts larger or smaller. -#}
{% macro _get_partitioned_scan(backfill, state, plan, scan) %}
    {%- set count = backfill.options.get('backfill_partitions') or 1 -%}
    {%- if count == 1 -%} {{ return(scan) }} {%- endif -%}
    {%- set keys, ranged, counts = plan.key, dbt_backfill.kind_reads_range(plan) and not plan.get('fills'), [] -%}
    {%- set window = dbt_backfill.window_predicate(keys, dbt_backfill.upstream_columns(keys), plan if ranged else {'last_range': true}) -%}
    {%- set rows = plan.get('backfill_rate_limit') if ranged else none -%}
    {%- if not rows -%}
        {%- set sql = "select to_json(named_struct('rows', "
            ~ dbt_backfill.postgres_row_count_sql(backfill.upstream, dbt_backfill.get_source(plan).version) ~ '))' -%}
        {%- set estimated = dbt_backfill.run_json('estimate the rows of the upstream', sql)[0].get('rows') or 0 -%}
        {%- set rows = estimated - (state.row_count if plan.get('range_low') else 0) -%}
    {%- endif -%}
    {%- for part in range(1, count) -%} {%- do counts.append((rows * part // count, 1) | max) -%} {%- endfor -%}
    {%- set sql = dbt_backfill.postgres_bounds_sql(backfill.upstream, keys, window, counts) -%}
    {%- set bounds = dbt_backfill.run_json('find the bounds of the partitions', sql)[0].bounds -%}
    {%- set columns, parts = dbt_backfill.upstream_columns(keys, 'part.'), [] -%}
    {%- for high in bounds + [none] -%}
        {%- set part = {'range_low': bounds[loop.index0 - 1] if loop.index0 else none, 'range_high': high, 'last_range': high is none} -%}
        {%- do parts.append('select * from (' ~ scan ~ ') as part where ' ~ dbt_backfill.window_predicate(keys, columns, part)) -%}
    {%- endfor -%}
    {{ return(parts | join('\nunion all\n')) }}
{% endmacro %}


{% macro _get_plan_of_stage(plan) %}
    {%- set source = dbt_backfill.get_source(plan) -%}
    {{ return({
        'epoch': plan.epoch, 'backfill_id': plan.backfill_id, 'kind': plan.kind, 'query_hash': plan.query_hash, 'vnodes': plan.get('vnodes'),
        'low': plan.get('range_low'), 'fill_low': plan.get('fill_low'), 'upstream': source.id, 'feed': source.definition,
    }) }}
{% endmacro %}


{#- Return the rows that a previous run has staged for the same plan but did not use, because the feed was late; none if there are no such rows.
    Refuse a table that this package did not create, because staging would empty the table. -#}
{% macro _find_staged(backfill, plan, needed) %}
    {%- set existing = dbt_backfill.load_table(backfill.staged) -%}
    {%- if existing is none -%} {{ return(none) }} {%- endif -%}
    {%- set properties = dbt_backfill.read_listed_properties(existing, backfill.staged) -%}
    {%- if 'dbt_backfill.format' not in properties -%}
        {%- do dbt_backfill.refuse(backfill.staged.render() ~ ' has the name of its staged rows, but was not created by this package',
            'Rename that table, or give the model another alias', mv=backfill.get('name'), id='staged-name-taken') -%}
    {%- endif -%}
    {%- set noted = properties.get('dbt_backfill.staged') -%}
    {#- Spark hides a property that looks like a secret, for example because of a column's name. -#}
    {%- if not (noted or '').startswith('{') -%} {{ return(none) }} {%- endif -%}
    {%- set noted = fromjson(noted) -%}
    {#- The expression of a volatile column may have changed and may now read a column that was not staged. -#}
    {%- set lacking = needed | reject('in', (noted.columns or []) | map(attribute='name') | list) | list -%}
    {%- if noted.plan != dbt_backfill._get_plan_of_stage(plan) or lacking -%} {{ return(none) }} {%- endif -%}
    {%- do log(dbt_backfill.get_name_of(backfill) ~ ' continues with the ' ~ dbt_backfill.get_count_text(noted.rows)
        ~ ' rows that an earlier run has read for its barrier ' ~ plan.epoch, info=true) -%}
    {{ return(noted) }}
{% endmacro %}


{#- True if a plan can still use its staged rows: its feed has the events since they were read, and the version of their table contains the rows. -#}
{% macro postgres_stage_kept(observed, source, stage) %}
    {%- set relation, before, now = dbt_backfill.parse_relation(stage.relation), fromjson(source.definition), fromjson(observed.definition) -%}
    {%- if dict(before, seen=none) != dict(now, seen=none) or dbt_backfill.find_unlike_table(before.get('seen') or {}, now.seen, observed.facts)
            or observed.floor is not none and observed.floor > fromjson(stage.definition).since or dbt_backfill.find_table(relation) is none -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set sql = 'select snapshot_id as version from ' ~ relation.render() ~ '.snapshots where snapshot_id = ' ~ stage.version
        if stage.kind == 'iceberg' else 'describe history ' ~ relation.render() ~ ' limit 1' -%}
    {%- set versions = dbt_backfill.run_table('look for the version of ' ~ relation.identifier, sql) -%}
    {%- if not versions or versions[0]['version'] | int < stage.version | int -%} {{ return(false) }} {%- endif -%}
    {{ return(dbt_backfill.run_json('look for the rows of the plan', "select to_json(named_struct('kept', count(*) = 1)) from "
        ~ dbt_backfill.get_kept_read(stage) ~ ' where __bf_stage = ' ~ dbt_backfill.string_literal(dbt_backfill.get_stage_mark(stage.id)))[0].kept) }}
{% endmacro %}
