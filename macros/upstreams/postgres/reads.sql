{#- Return the live table. Two reads of the table may return different rows, so only staged rows are read more than once. -#}
{% macro postgres_upstream_read(upstream, version) %}
    {{ return(upstream.relation.render()) }}
{% endmacro %}


{#- Return a scalar subquery of the number of rows that the database estimates. -#}
{% macro postgres_row_count_sql(upstream, version) %}
    {%- set query = 'select greatest(reltuples, 0)::bigint::text as value_1 from pg_class where oid in ('
        ~ dbt_backfill.get_postgres_oids_query(upstream.feed.table) ~ ')' -%}
    {{ return('(select cast(value_1 as bigint) from (' ~ dbt_backfill.get_postgres_query_sql(
        dbt_backfill.get_catalog(upstream.relation), query) ~ '))') }}
{% endmacro %}


{#- Return a text as a literal of PostgreSQL. -#}
{% macro postgres_literal(text) %}
    {{ return("'" ~ text | replace("'", "''") ~ "'") }}
{% endmacro %}


{% macro postgres_upstream_changes(observed, from_version, to_version, keys, view) %}
    {%- set columns = dbt_backfill.identifiers(observed.columns) -%}
    {%- set events -%}
        select {{ columns }}, struct(__bf_position, __bf_sequence) as __bf_version, __bf_op <> 'd' as __bf_is_upsert
        from (
            {{ dbt_backfill.get_feed_rows_sql(dict(observed.followed, key=dbt_backfill.upstream_columns(keys)), observed.columns) }}
        )
        where __bf_op in ('i', 'u', 'd') and __bf_position > {{ from_version }} and __bf_position <= {{ to_version }}
    {%- endset -%}
    {{ return({'events': events, 'may_repeat': true}) }}
{% endmacro %}


{#-
    Return the range source of a plan whose rows were staged, see get_source_read. The source has the staged rows and an overlay. The overlay has the
    last event of a key up to the version of the plan, and replaces the staged row of this key. The overlay has only events whose transaction was not
    visible when the rows were staged: the staged rows already show all other events. If another run has created the table of staged ranges again, a
    read of this source raises an error. Without the error, a range whose rows are gone would look like a range without rows.
-#}
{% macro postgres_staged_source(upstream, version, stage, keys) %}
    {%- set noted = fromjson(stage.definition) -%}
    {%- set where -%}
        __bf_stage = {{ dbt_backfill.string_literal(stage.id) }} and (
            select if(count(*) = 1, true, raise_error(
                'backfilled_mv {{ dbt_backfill.parse_relation(stage.relation).identifier[:-8] }}: the rows that were staged for a barrier are gone, because another run has replaced them. Nothing was written; run again to continue, and let only one run of the model work at a time.'
            ))
            from {{ dbt_backfill.get_kept_read(stage) }}
            where __bf_stage = {{ dbt_backfill.string_literal(dbt_backfill.get_stage_mark(stage.id)) }}
        )
    {%- endset -%}
    {{ return({
        'relation': dbt_backfill.parse_relation(stage.relation), 'kind': stage.kind, 'version': stage.version, 'columns': noted.columns,
        'where': where, 'overlay': '(' ~ dbt_backfill._get_overlay_sql(upstream.feed, version, noted, keys) ~ ')',
    }) }}
{% endmacro %}


{#- Return the table of staged ranges, at the version of a stage. -#}
{% macro get_kept_read(stage) %}
    {%- set kept = {'relation': dbt_backfill.parse_relation(stage.relation), 'kind': stage.kind} -%}
    {{ return(dbt_backfill.ask(kept, 'upstream_read')(kept, stage.version)) }}
{% endmacro %}


{#- Return the value of `__bf_stage` in the row that marks a stage as complete. A stage without rows has this row as well. For the id '', return the
    prefix of the marks of all stages. -#}
{% macro get_stage_mark(id) %}
    {{ return('all of ' ~ id) }}
{% endmacro %}


{#-
    Return a select of the last event of each key up to a version. Leave out events whose transaction was visible when the rows of the stage were
    read.

    In a feed of the format `declared`, an event may not contain its transaction. If any transaction was running while the rows were read, an event of
    this transaction may be anywhere in the feed after the last TRUNCATE or gap. Events before a TRUNCATE are not needed, because the TRUNCATE has
    waited for all transactions that wrote to the table. Events before a gap are not needed, because they do not describe the rows after the gap.
-#}
{% macro _get_overlay_sql(feed, version, noted, keys) -%}
    {%- set columns, columns_of_key = dbt_backfill.identifiers(noted.columns), dbt_backfill.upstream_columns(keys) -%}
    {%- set unseen = dbt_backfill.unseen_predicate(feed, noted) -%}
    {%- if feed.format == 'declared' -%}
        {%- set parts, later = noted.snapshot.split(':'), '__bf_position > ' ~ noted.since -%}
        {%- if parts[2] != '' or parts[3] | int > parts[1] | int -%}
            {%- set later -%}
                coalesce(struct(__bf_position, __bf_sequence) > (
                    select max(struct(__bf_position, if(__bf_op = 't', __bf_sequence, null)))
                    from (
                        {{ dbt_backfill.get_feed_rows_sql(feed, []) }}
                    )
                    where __bf_op in ('t', 'g') and __bf_position <= {{ version }}
                ), true)
            {%- endset -%}
        {%- endif -%}
        {%- set unseen = unseen ~ ' or __bf_xid is null and ' ~ later -%}
    {%- endif -%}
    select last.*
    from (
        select max_by(struct({{ columns }}, __bf_op = 'd' as __bf_deleted), struct(__bf_position, __bf_sequence)) as last
        from (
            {{ dbt_backfill.get_feed_rows_sql(dict(feed, key=columns_of_key), noted.columns) }}
        )
        where __bf_op in ('i', 'u', 'd') and __bf_position <= {{ version }}
            and ({{ unseen }})
        group by {{ columns_of_key | join(', ') }}
    )
{%- endmacro %}


{#-
    Return a predicate over `__bf_xid`. The predicate is true if the transaction of an event was not visible when the rows of a stage were read. It is
    null if the event does not contain its transaction. Transaction ids start again after 2^32 transactions. The events of land_changes contain each
    id with its epoch. In other events, ids have no epoch. Two such ids are less than 2^31 apart, which shows the later id.

    A commit may be in the feed before other transactions can see it, for example while it waits for a standby. So the predicate is true for every
    event of a transaction that was running when the rows were read, whatever the event's position. If the id of a transaction is later than the
    snapshot, the transaction began after the feed had landed up to `since`. If an event at or below `since` has such an id, an earlier transaction
    has used this id, and the predicate is false. The predicate is also false for events before `renewed`: they belong to another history of the
    database, which used the same ids. The ids are literals, so Spark can skip files.

    `noted`: as run_stage returned it. Its 'snapshot' is `xmin:xmax:xip,…:next` and the time of the server's last recovery.
-#}
{% macro unseen_predicate(feed, noted) %}
    {%- set parts, half, running = noted.snapshot.split(':'), 2147483648, [] -%}
    {%- set turn = none if feed.format == 'landed' else 2 * half -%}
    {%- for xid in parts[2].split(',') if xid -%} {%- do running.append(xid | int % turn if turn else xid | int) -%} {%- endfor -%}
    {%- set given = [dbt_backfill._get_xid_range(parts[1] | int, parts[3] | int - parts[1] | int, turn)] if parts[3] | int > parts[1] | int else [] -%}
    {%- set given = given + (['__bf_xid in (' ~ running | join(', ') ~ ')'] if running else []) -%}
    {%- set renewed = ' and __bf_position >= ' ~ noted.renewed if noted.get('renewed') is not none else '' -%}
    {#- In Debezium's feed, all events of the first transaction after a snapshot have the position 1. So the position in the WAL is used instead. -#}
    {%- set written = '__bf_sequence' if feed.format == 'debezium' else '__bf_position' -%}
    {%- set later = written ~ ' > ' ~ noted.since ~ ' and ' ~ dbt_backfill._get_xid_range(parts[1] | int, half, turn) -%}
    {{ return('(' ~ later ~ (' or (' ~ given | join(' or ') ~ ')' ~ renewed if given else '') ~ ')') }}
{% endmacro %}


{#- Return a predicate for the `count` ids from `first` (with its epoch) on. Ids start again after `turn` ids; none for never. -#}
{% macro _get_xid_range(first, count, turn) %}
    {%- set low = first % turn if turn else first -%}
    {{ return('__bf_xid between ' ~ low ~ ' and ' ~ (low + count - 1) if not turn or low + count <= turn
        else '(__bf_xid >= ' ~ low ~ ' or __bf_xid < ' ~ (low + count - turn) ~ ')') }}
{% endmacro %}


{#- Return an expression for the next transaction id of PostgreSQL, with its epoch. -#}
{% macro get_postgres_next_id() -%}
    (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + age(pg_snapshot_xmax(pg_current_snapshot())::xid))
{%- endmacro %}


{#- Return an expression for a text that changes if the server, or one of its processes, crashes. The text is the time when the statistics were reset:
    PostgreSQL resets the statistics after a crash, but not at a restart without a crash. The text also changes if a user resets the statistics. -#}
{% macro get_postgres_recovered() -%}
    coalesce((select (extract(epoch from stats_reset) * 1000000)::bigint::text from pg_stat_bgwriter), '')
{%- endmacro %}


{#- Refuse a query that compares a `char(n)` column: Spark pads the other side of the comparison when it reads the table, but not when it reads the
    events. A query may return such a column, or pass it to a function that returns a string or a number, such as rtrim. In these two cases the result
    is the same for the table and the events. In Spark's plan, a column is padded where it is read or where it is used. -#}
{% macro postgres_check_query(explained) %}
    {%- set padded = 'static_invoke\\(CharVarcharCodegenUtils[.]readSidePadding\\((([^#()]+)#(\\d+)), \\d+\\)\\)' -%}
    {%- set plan, chars, passed = explained.optimized[:-1] | join('\n'), {}, {} -%}
    {%- for column, name, id in modules.re.findall(padded, plan) -%} {%- do chars.update({id: name}) -%} {%- do passed.update({column: true}) -%} {%- endfor -%}
    {%- if not chars -%} {{ return(none) }} {%- endif -%}
    {%- set plan = modules.re.sub(padded, '\\1', plan) -%}
    {#- Search from the end of the plan to its beginning, because the plan prints an operator above its input. -#}
    {%- for id, name, new_id in modules.re.findall('#(\\d+) AS ([^#]+)#(\\d+)', plan) | reverse -%}
        {%- if id in chars -%} {%- do chars.update({new_id: name}) -%} {%- do passed.update({name ~ '#' ~ new_id: true}) -%} {%- endif -%}
    {%- endfor -%}
    {#- The results of these functions do not count as `char(n)` values. -#}
    {%- set functions = [
        'rtrim', 'ltrim', 'trim', 'btrim', 'upper', 'lower', 'length', 'substring', 'left', 'right', 'concat', 'cast', 'md5', 'sha1', 'sha2',
        'coalesce', 'isnull', 'isnotnull', 'rlike', 'startswith', 'endswith', 'contains',
    ] -%}
    {%- set taken = '(?i)(?<!\\w)(?:' ~ functions | join('|') ~ ')\\([^#(), ]+#\\d+|[^#(), ]+#\\d+ LIKE ' -%}
    {%- for line in plan.split('\n') -%}
        {%- for entry in (dbt_backfill.split_list(line.split('Project [', 1)[1][:-1]) if 'Project [' in line else [line]) -%}
            {%- set used = '' if entry.split(' AS ')[0] in passed else modules.re.sub(taken, '', entry) -%}
            {%- for id in modules.re.findall('#(\\d+)', used) if id in chars -%}
                {%- do dbt_backfill.refuse(
                    'its query compares ' ~ chars[id] ~ ', which is a char(n) in PostgreSQL, '
                        ~ 'so a row of the table and a change of this row may give different results',
                    'Compare rtrim(' ~ chars[id] ~ ') instead, with a value that has no blanks at its end', id='postgresql-char-compared') -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}
