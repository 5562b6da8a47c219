{#- The live table, which gives other rows each time: only what is staged with a plan is read more than once. -#}
{% macro postgres_upstream_read(upstream, version) %}
    {{ return(upstream.relation.render()) }}
{% endmacro %}


{#- As the database estimates it. -#}
{% macro postgres_row_count_sql(upstream, version) %}
    {%- set query = 'select greatest(reltuples, 0)::bigint::text as value_1 from pg_class where oid in ('
        ~ dbt_backfill.get_postgres_oids_query(upstream.feed.table) ~ ')' -%}
    {{ return('(select cast(value_1 as bigint) from (' ~ dbt_backfill.get_postgres_query_sql(
        dbt_backfill.get_catalog(upstream.relation), query) ~ '))') }}
{% endmacro %}


{#- A text as PostgreSQL writes it. -#}
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
    The range source of a plan whose rows were staged, see get_source_read: those that were read from the live table, overlaid, per
    key, by the last event up to the version of the plan. The last event of a key says how its row is. Any other key has not changed
    since the feed began, so what was read is right whenever that was. Only events whose transaction the reader could not see have to
    be looked at for that, which are few. If another run has made the table anew, reading it is an error: no rows would be taken for a
    range without any.
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


{#- The table of staged ranges, at the version of a stage. -#}
{% macro get_kept_read(stage) %}
    {%- set kept = {'relation': dbt_backfill.parse_relation(stage.relation), 'kind': stage.kind} -%}
    {{ return(dbt_backfill.ask(kept, 'upstream_read')(kept, stage.version)) }}
{% endmacro %}


{#- What `__bf_stage` is in the one row that is written with those of a stage, however few they are; of '' what stands before the id. -#}
{% macro get_stage_mark(id) %}
    {{ return('all of ' ~ id) }}
{% endmacro %}


{#-
    Return a select of the last event per key up to a version, of those whose transaction the reader of a stage does not see.

    Events that do not tell their transaction are only in a feed of declared columns. Where any transaction was running, one of them may
    lie anywhere in the feed, but not before the table was emptied: that waits for all who wrote to it. What is before a gap says nothing
    of the rows after it.
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
    Whether the reader of a stage does not see a transaction of which the feed tells: over `__bf_xid`, an id that begins anew after 2^32
    of them, unless land_changes has written it, with its epoch. Of two such ids the later one is less than 2^31 ahead. Null where the feed does not
    tell the transaction.

    A commit is in the feed a moment before anybody sees it, and long before where it waits for a standby. So an id that was given, and
    running, when the rows were read counts at any position. A later one is of a transaction that began after the feed had landed up
    to `since`: what it is at or below that is the same id of long ago. Neither counts where it is of another history of the database,
    which gave the same ids. Ranges of literals, by which files are skipped.

    Arguments:
      noted (dict): {
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
    {#- Debezium gives the events of the first transaction after a snapshot the position 1, and each its own place in the WAL. -#}
    {%- set written = '__bf_sequence' if feed.format == 'debezium' else '__bf_position' -%}
    {%- set later = written ~ ' > ' ~ noted.since ~ ' and ' ~ dbt_backfill._get_xid_range(parts[1] | int, half, turn) -%}
    {{ return('(' ~ later ~ (' or (' ~ given | join(' or ') ~ ')' ~ renewed if given else '') ~ ')') }}
{% endmacro %}


{#- `count` ids from one on, which has its epoch; they begin anew after `turn` of them, or never. -#}
{% macro _get_xid_range(first, count, turn) %}
    {%- set low = first % turn if turn else first -%}
    {{ return('__bf_xid between ' ~ low ~ ' and ' ~ (low + count - 1) if not turn or low + count <= turn
        else '(__bf_xid >= ' ~ low ~ ' or __bf_xid < ' ~ (low + count - turn) ~ ')') }}
{% endmacro %}


{#- With its epoch. -#}
{% macro get_postgres_next_id() -%}
    (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + age(pg_snapshot_xmax(pg_current_snapshot())::xid))
{%- endmacro %}


{#-
    A text that is another one after a crash of the server, or of one of its processes, from which it recovered: then PostgreSQL begins its
    statistics anew. A restart without a crash keeps them. Who resets them makes it another one, too.
-#}
{% macro get_postgres_recovered() -%}
    coalesce((select (extract(epoch from stats_reset) * 1000000)::bigint::text from pg_stat_bgwriter), '')
{%- endmacro %}


{#-
    Refuse a query that compares a `char(n)`: Spark pads what it is compared with, in the table and not in its events. A query may pass such
    a column on, or hand it to a function that gives a text or a number, such as rtrim, which gives the same in both.

    Spark's analyzed plan has a projection over the table that pads its columns to their length.
-#}
{% macro postgres_check_query(explained, query) %}
    {%- set plan, chars = dbt_backfill.mask_names(explained, query), {} -%}
    {%- set items, padded = dbt_backfill.plan_expressions(plan, query), 'readSidePadding\\((?:@|\\w+)#(\\d+).*\\) AS (@|\\w+)#(\\d+)$' -%}
    {#- What a function such as nullif is called with is printed as it was before. -#}
    {%- for item in items -%}
        {%- set match = modules.re.search(padded, item) -%}
        {%- if match -%} {%- do chars.update({match.group(1): match.group(2), match.group(3): match.group(2)}) -%} {%- endif -%}
    {%- endfor -%}
    {%- if not chars -%} {{ return(none) }} {%- endif -%}
    {%- set chars = dbt_backfill.follow_columns(plan, items, chars) -%}
    {%- set column = '(?:@|\\w+)#\\d+' -%}
    {#- Their value no longer counts as a `char(n)`. -#}
    {%- set functions = [
        'rtrim', 'ltrim', 'trim', 'btrim', 'upper', 'lower', 'length', 'substring', 'left', 'right', 'concat', 'cast', 'md5', 'sha1', 'sha2',
        'coalesce', 'isnull', 'isnotnull', 'rlike',
    ] -%}
    {%- set taken = '(?i)(?<!\\w)(?:' ~ functions | join('|') ~ ')\\(' ~ column ~ '|' ~ column ~ ' LIKE ' -%}
    {%- for item in items if not dbt_backfill.passed_column(item) and not modules.re.search(padded, item) -%}
        {%- for id in modules.re.findall('#(\\d+)', modules.re.sub(taken, '', item)) if id in chars -%}
            {%- do dbt_backfill.refuse(
                'its query compares ' ~ chars[id] ~ ', which is a char(n) in PostgreSQL, and Spark pads a text with blanks for that in the table '
                    ~ 'and not in its events',
                'Compare rtrim(' ~ chars[id] ~ ') with the text without blanks at its end'
            ) -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}
