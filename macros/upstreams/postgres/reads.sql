{#- Return the live table, which has other rows each time: only what is staged with a plan is read more than once. -#}
{% macro postgres_upstream_read(upstream, version) %}
    {{ return(upstream.relation.render()) }}
{% endmacro %}


{#- Return the estimate of the database. -#}
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
            {{ dbt_backfill.get_feed_rows_sql(observed.followed, observed.columns) }}
        )
        where __bf_op in ('i', 'u', 'd') and __bf_position > {{ from_version }} and __bf_position <= {{ to_version }}
    {%- endset -%}
    {{ return({'events': events, 'may_repeat': true}) }}
{% endmacro %}


{#-
    Return the range source of a plan whose rows were staged, see get_source_read: the rows that were read from the live table, overlaid, per
    key, by the last event up to the version of the plan. The last event of a key contains its row. A key without an event has not
    changed since the feed began, so its row is right whenever it was read. Only events whose transaction the reader could not see are
    needed for that, which are few. If another run has created the table again, reading it is an error: otherwise a table without the
    rows would look like a range without rows.
-#}
{% macro postgres_staged_source(upstream, version, stage, keys) %}
    {%- set noted = fromjson(stage.definition) -%}
    {%- set where -%}
        __bf_stage = {{ dbt_backfill.string_literal(stage.id) }} and (
            select if(count(*) = 1, true, raise_error(
                'backfilled_mv: the rows that were staged for a barrier are gone, because another run has replaced them. Nothing was written; run again to continue.'
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


{#- Return the `__bf_stage` of the one row that marks a stage as complete, even if the stage has no other rows; of '' its prefix. -#}
{% macro get_stage_mark(id) %}
    {{ return('all of ' ~ id) }}
{% endmacro %}


{#-
    Return a select of the last event per key up to a version, of those whose transaction the reader of a stage does not see.

    Only a feed of declared columns has events that do not contain their transaction. Where any transaction was running, such an event may
    be anywhere in the feed, but not before the table was emptied, because that waits for all who wrote to it. Events before a gap say
    nothing of the rows after it.
-#}
{% macro _get_overlay_sql(feed, version, noted, keys) -%}
    {%- set columns = dbt_backfill.identifiers(noted.columns) -%}
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
            {{ dbt_backfill.get_feed_rows_sql(feed, noted.columns) }}
        )
        where __bf_op in ('i', 'u', 'd') and __bf_position <= {{ version }}
            and ({{ unseen }})
        group by {{ dbt_backfill.upstream_columns(keys) | join(', ') }}
    )
{%- endmacro %}


{#-
    Return a predicate over `__bf_xid` that is true if the reader of a stage does not see the transaction of an event; null where the event
    does not contain its transaction. The id starts again after 2^32 transactions, unless land_changes has written it, with its epoch. Of
    two such ids the later one is less than 2^31 ahead.

    A commit is in the feed a moment before anybody sees it, and long before if it waits for a standby. So an id that existed, and whose
    transaction was running, when the rows were read counts at any position. A later id belongs to a transaction that began after the
    feed had landed up to `since`: the same id at or below `since` is one of long ago. No id counts that belongs to another history of
    the database, which used the same ids. The predicate has ranges of literals, so that Spark skips files by them.

    Arguments:
      `noted` (dict): {
        'snapshot': `xmin:xmax:xip,…:next`, and more, see postgres_stage_script,
        'since': up to where the feed had landed before that,
        'renewed': see get_feed_place_sql
      }
-#}
{% macro unseen_predicate(feed, noted) %}
    {%- set parts, half, running = noted.snapshot.split(':'), 2147483648, [] -%}
    {%- set turn = none if feed.format == 'landed' else 2 * half -%}
    {%- for xid in parts[2].split(',') if xid -%} {%- do running.append(xid | int % turn if turn else xid | int) -%} {%- endfor -%}
    {%- set given = [dbt_backfill._get_xid_range(parts[1] | int, parts[3] | int - parts[1] | int, turn)] if parts[3] | int > parts[1] | int else [] -%}
    {%- set given = given + (['__bf_xid in (' ~ running | join(', ') ~ ')'] if running else []) -%}
    {%- set renewed = ' and __bf_position >= ' ~ noted.renewed if noted.get('renewed') is not none else '' -%}
    {#- Debezium's events of the first transaction after a snapshot have the position 1, but each has its own position in the WAL. -#}
    {%- set written = '__bf_sequence' if feed.format == 'debezium' else '__bf_position' -%}
    {%- set later = written ~ ' > ' ~ noted.since ~ ' and ' ~ dbt_backfill._get_xid_range(parts[1] | int, half, turn) -%}
    {{ return('(' ~ later ~ (' or (' ~ given | join(' or ') ~ ')' ~ renewed if given else '') ~ ')') }}
{% endmacro %}


{#- Return a predicate of `count` ids from `first` on, which has its epoch. Ids start again at 0 after `turn` of them; never if it is none. -#}
{% macro _get_xid_range(first, count, turn) %}
    {%- set low = first % turn if turn else first -%}
    {{ return('__bf_xid between ' ~ low ~ ' and ' ~ (low + count - 1) if not turn or low + count <= turn
        else '(__bf_xid >= ' ~ low ~ ' or __bf_xid < ' ~ (low + count - turn) ~ ')') }}
{% endmacro %}


{#- Return an expression of the next transaction id of PostgreSQL, with its epoch. -#}
{% macro get_postgres_next_id() -%}
    (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + age(pg_snapshot_xmax(pg_current_snapshot())::xid))
{%- endmacro %}


{#-
    Return an expression of a text that changes when the server, or one of its processes, crashes and recovers: PostgreSQL then resets its
    statistics. A restart without a crash keeps them. The text also changes if somebody resets them.
-#}
{% macro get_postgres_recovered() -%}
    coalesce((select (extract(epoch from stats_reset) * 1000000)::bigint::text from pg_stat_bgwriter), '')
{%- endmacro %}


{#-
    Refuse a query that compares a `char(n)`: Spark pads what it is compared with, in the table and not in its events. A query may pass such
    a column on, or hand it to a function that gives a text or a number, such as rtrim, which gives the same in both.

    Spark's analyzed plan has a projection over the table that pads its columns to their length.
-#}
{% macro postgres_check_query(explained) %}
    {%- set name = dbt_backfill.find_compared_char(explained) -%}
    {%- if name is not none -%}
        {%- do dbt_backfill.refuse(
            'its query compares ' ~ name ~ ', which is a char(n) in PostgreSQL, and Spark pads a text with blanks for that in the table and not in its events',
            'Compare rtrim(' ~ name ~ ') with the text without blanks at its end'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Return the name of such a column that a query does more with than pass it on, or hand it to a function that gives a text or a number;
    none if there is none. Spark's plan pads the columns to their length, as it reads them or where they are used.
-#}
{% macro find_compared_char(explained) %}
    {%- set padded = 'static_invoke\\(CharVarcharCodegenUtils[.]readSidePadding\\((([^#()]+)#(\\d+)), \\d+\\)\\)' -%}
    {%- set plan, chars, passed = explained.optimized[:-1] | join('\n'), {}, {} -%}
    {%- for column, name, id in modules.re.findall(padded, plan) -%} {%- do chars.update({id: name}) -%} {%- do passed.update({column: true}) -%} {%- endfor -%}
    {%- if not chars -%} {{ return(none) }} {%- endif -%}
    {%- set plan = modules.re.sub(padded, '\\1', plan) -%}
    {#- What reads a projection is above it. -#}
    {%- for id, name, new_id in modules.re.findall('#(\\d+) AS ([^#]+)#(\\d+)', plan) | reverse -%}
        {%- if id in chars -%} {%- do chars.update({new_id: name}) -%} {%- do passed.update({name ~ '#' ~ new_id: true}) -%} {%- endif -%}
    {%- endfor -%}
    {#- The value of these no longer counts as a `char(n)`. -#}
    {%- set functions = [
        'rtrim', 'ltrim', 'trim', 'btrim', 'upper', 'lower', 'length', 'substring', 'left', 'right', 'concat', 'cast', 'md5', 'sha1', 'sha2',
        'coalesce', 'isnull', 'isnotnull', 'rlike', 'startswith', 'endswith', 'contains',
    ] -%}
    {%- set taken = '(?i)(?<!\\w)(?:' ~ functions | join('|') ~ ')\\([^#(), ]+#\\d+|[^#(), ]+#\\d+ LIKE ' -%}
    {%- for line in plan.split('\n') -%}
        {%- for entry in (dbt_backfill.split_list(line.split('Project [', 1)[1][:-1]) if 'Project [' in line else [line]) -%}
            {%- set used = '' if entry.split(' AS ')[0] in passed else modules.re.sub(taken, '', entry) -%}
            {%- for id in modules.re.findall('#(\\d+)', used) if id in chars -%} {{ return(chars[id]) }} {%- endfor -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}
