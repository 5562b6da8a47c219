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


{% macro postgres_copy_format() %}
    {{ return(none) }}
{% endmacro %}


{% macro postgres_copy_properties(source) %}
    {{ return({}) }}
{% endmacro %}


{% macro postgres_byte_count(upstream) %}
    {{ return(none) }}
{% endmacro %}


{#- A text as PostgreSQL writes it. -#}
{% macro postgres_literal(text) %}
    {{ return("'" ~ text | replace("'", "''") ~ "'") }}
{% endmacro %}


{% macro postgres_upstream_changes(observed, from_version, to_version, keys) %}
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
    The rows of a range at the version of its plan: those that were read from the live table, overlaid, per key, by the last event
    up to that version. Of a key that has an event up to there, the last one says how its row is; of any other key the row
    has not changed since the feed began, so what was read is right whenever that was. Only events whose transaction the reader
    could not see have to be looked at for that, which are few. Those of another history of the database have ids that it gives
    again, and do not count.
-#}
{% macro postgres_staged_read(upstream, version, stage, keys) -%}
    {%- set noted = fromjson(stage.definition) -%}
    {%- set columns = dbt_backfill.identifiers(noted.columns) -%}
    {%- set overlay = dbt_backfill._get_overlay_sql(upstream.feed, version, noted, keys) -%}
    (
        select staged.*
        from (
            {{ dbt_backfill.get_staged_rows_of_sql(stage, columns) }}
        ) as staged
        left anti join (
            {{ overlay }}
        ) as late on {{ dbt_backfill.equal_columns(dbt_backfill.upstream_columns(keys), 'staged.', 'late.') }}
        union all
        select {{ columns }}
        from (
            {{ overlay }}
        )
        where __bf_op <> 'd'
    )
{%- endmacro %}


{#- What was read for a plan, as it was then, whatever was staged later. -#}
{% macro get_staged_rows_of_sql(stage, columns) -%}
    {%- set kept = {'relation': dbt_backfill.parse_relation(stage.relation), 'kind': stage.kind} -%}
    select {{ columns }}
    from {{ dbt_backfill.get_upstream_read(kept, stage.version) }}
    where __bf_stage = {{ dbt_backfill.string_literal(stage.id) }}
{%- endmacro %}


{#- Per key the last event up to a version, of those whose transaction a snapshot of PostgreSQL does not see. -#}
{% macro _get_overlay_sql(feed, version, noted, keys) -%}
    {%- set columns = dbt_backfill.identifiers(noted.columns) -%}
    select last.*
    from (
        select max_by(struct({{ columns }}, __bf_op), struct(__bf_position, __bf_sequence)) as last
        from (
            {{ dbt_backfill.get_feed_rows_sql(feed, noted.columns) }}
        )
        where __bf_op in ('i', 'u', 'd') and __bf_position <= {{ version }} and {{ dbt_backfill.unseen_predicate(noted.snapshot) }}
            {%- if noted.get('renewed') is not none %} and __bf_position > {{ noted.renewed }} {%- endif %}
        group by {{ dbt_backfill.upstream_columns(keys) | join(', ') }}
    )
{%- endmacro %}


{#-
    Whether a snapshot (`xmin:xmax:xip,…`, as pg_current_snapshot() gives it) does not see a transaction, over `__bf_xid`: its id of 32
    bits, which begins anew after 2^32 of them; null where the feed does not tell it. Of two ids the later one is less than 2^31
    ahead. Ranges of literals, by which files are skipped.
-#}
{% macro unseen_predicate(snapshot) %}
    {%- set whole, half = 4294967296, 2147483648 -%}
    {%- set parts = snapshot.split(':') -%}
    {%- set next = parts[1] | int % whole -%}
    {%- set ahead = '__bf_xid between ' ~ next ~ ' and ' ~ (next + half - 1) if next + half <= whole
        else '__bf_xid >= ' ~ next ~ ' or __bf_xid < ' ~ (next + half - whole) -%}
    {%- set running = [] -%}
    {%- for xid in parts[2].split(',') if xid -%} {%- do running.append(xid | int % whole) -%} {%- endfor -%}
    {{ return('(__bf_xid is null or ' ~ ahead ~ (' or __bf_xid in (' ~ running | join(', ') ~ ')' if running else '') ~ ')') }}
{% endmacro %}
