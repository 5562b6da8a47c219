{#-
    The feed of a table of PostgreSQL, as the model's change_feed and its upstream say: {
      'relation', 'kind': the change table, a Delta or Iceberg table; kind is none where it does not exist yet,
      'format': `landed`, `debezium` or `declared`, see get_feed_rows_sql,
      'table': the name of the table in PostgreSQL, with its schema,
      'slot': the replication slot that it is landed from; none if something else lands it,
      'wait_seconds': how long a barrier waits for it,
      'finite': whether the user says that there is neither NaN nor infinity in the table,
      'query': of the model, with the upstream substituted; none where a plan noted the feed,
      'conversions': of `debezium`, see check_feed_table,
      and of `declared` 'operation', 'sequence', 'deletes', 'before_images', 'position' and 'xid', see read_change_feed
    }
-#}
{% macro postgres_needed_feed(upstream, options, sql) %}
    {%- set upstream = upstream.relation -%}
    {%- if not options -%}
        {%- do dbt_backfill.refuse(
            'its upstream ' ~ upstream.render() ~ ' is a table of PostgreSQL, and no change_feed tells its changes',
            "Set change_feed={'relation': \"source('lake', '" ~ upstream.identifier ~ "_changes')\", 'slot': 'a_name'}, and see docs/postgres.md"
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill.check_change_feed_upstream(options, true) -%}
    {%- set relation = dbt_backfill.get_read_relation(options.node, sql) -%}
    {%- set found = dbt_backfill.load_table(relation) -%}
    {%- set kind = dbt_backfill.get_table_format(found, relation) if found and not found.is_view else none -%}
    {%- if kind not in [none, 'delta', 'iceberg'] or found and found.is_view -%}
        {%- do dbt_backfill.refuse(
            'its change_feed ' ~ relation.render() ~ ' is neither a Delta nor an Iceberg table', 'Give it a table whose rows stay as they were written'
        ) -%}
    {%- endif -%}
    {%- set feed = {
        'relation': relation, 'kind': kind, 'format': options.format,
        'query': dbt_backfill.substitute_upstream(sql, upstream),
        'table': dbt_backfill.get_postgres_name(upstream, options),
    } -%}
    {%- for name in ['slot', 'wait_seconds', 'finite', 'operation', 'sequence', 'deletes', 'before_images', 'position', 'xid'] -%}
        {%- do feed.update({name: options.get(name)}) -%}
    {%- endfor -%}
    {%- if feed.format == 'debezium' and kind -%}
        {{ return(dbt_backfill.check_feed_table(feed, dbt_backfill.get_table_columns(upstream))) }}
    {%- endif -%}
    {{ return(feed) }}
{% endmacro %}


{#- The name of a table in PostgreSQL, with its schema: that of the relation, unless `change_feed` has another one. -#}
{% macro get_postgres_name(upstream, change_feed) %}
    {{ return(change_feed.get('table') or upstream.schema.split('.')[1:] | join('.') ~ '.' ~ upstream.identifier) }}
{% endmacro %}


{#-
    What a plan notes of it, so that a change of it shows, and what reads its version later knows it; and as `seen` what the table and
    its change table were then, see get_seen_table.
-#}
{% macro describe_postgres_feed(feed, seen) %}
    {%- set noted = {'relation': feed.relation.render()} -%}
    {%- for name in ['kind', 'format', 'table', 'operation', 'sequence', 'deletes', 'before_images', 'position', 'xid', 'conversions', 'finite'] if feed.get(name) not in [none, false] -%}
        {%- do noted.update({name: feed[name]}) -%}
    {%- endfor -%}
    {{ return(tojson(dict(noted, seen=seen), sort_keys=true)) }}
{% endmacro %}


{% macro postgres_noted_feed(source) %}
    {%- set noted = fromjson(source.definition) -%}
    {{ return(dict(noted, relation=dbt_backfill.parse_relation(noted.relation), wait_seconds=60)) }}
{% endmacro %}


{#- Refuse a feed that is not there. -#}
{% macro check_postgres_change_table(upstream) %}
    {%- if upstream.feed.kind is none -%}
        {%- do dbt_backfill.refuse(
            'its change_feed ' ~ upstream.feed.relation.render() ~ ' does not exist', dbt_backfill._land_first(upstream.feed)
        ) -%}
    {%- endif -%}
{% endmacro %}


{% macro check_postgres_landed(upstream, place) %}
    {%- if place.landed is none -%}
        {%- do dbt_backfill.refuse(
            'its change_feed ' ~ upstream.feed.relation.render() ~ ' does not tell up to where it has landed: it has no event and no watermark',
            dbt_backfill._land_first(upstream.feed)
        ) -%}
    {%- endif -%}
{% endmacro %}


{% macro _land_first(feed) %}
    {{ return('Land the changes of ' ~ feed.table ~ ' first' ~ (': dbt run-operation land_changes' if feed.format == 'landed' else '')) }}
{% endmacro %}
