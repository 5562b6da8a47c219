{#-
    Return the feed of a PostgreSQL table, from the model's change_feed and its upstream: {
      'relation', 'kind': the change table and its kind, `delta` or `iceberg`; kind is none if the change table does not exist yet,
      'format': `landed`, `debezium` or `declared`, see get_feed_rows_sql,
      'table': the name of the table in PostgreSQL, with its schema,
      'slot', 'wait_seconds', 'finite': see read_change_feed,
      'query': the model's query, with the upstream substituted; absent if the feed comes from a stored plan,
      'conversions': only for `debezium`, see check_feed_table,
      'operation', 'sequence', 'deletes', 'before_images', 'position', 'xid': only for `declared`, see read_change_feed
    }
-#}
{% macro postgres_needed_feed(upstream, options, sql, query) %}
    {%- set upstream = upstream.relation -%}
    {%- do dbt_backfill.refuse_first([
        {'when': not options, 'fact': 'its upstream ' ~ upstream.render() ~ ' is a table of PostgreSQL, but the model has no change_feed',
         'id': 'change-feed-missing', 'change': "Set change_feed={'relation': \"source('lake', '" ~ upstream.identifier
            ~ "_changes')\", 'slot': 'a_name'}, and see docs/postgres.md"},
        {'id': 'change-feed-position-missing', 'when': options and options.format == 'declared' and not options.position,
         'fact': "its change_feed does not set 'position', so a run cannot find out which changes of PostgreSQL have landed",
         'change': "Set 'position' to the column that has the position of the commit, as a number"},
    ]) -%}
    {%- set relation = dbt_backfill.get_read_relation(options.node, sql) -%}
    {%- set found = dbt_backfill.load_table(relation, reads=true) -%}
    {%- set kind = dbt_backfill.get_table_format(found, relation) if found and not found.is_view else none -%}
    {%- if kind not in [none, 'delta', 'iceberg'] or found and found.is_view -%}
        {%- do dbt_backfill.refuse(
            'its change_feed ' ~ relation.render() ~ ' is neither a Delta nor an Iceberg table', "Set 'relation' to a Delta or Iceberg table",
            id='change-table-format') -%}
    {%- endif -%}
    {%- set feed = {
        'relation': relation, 'kind': kind, 'format': options.format, 'query': query, 'table': dbt_backfill.get_postgres_name(upstream, options),
    } -%}
    {%- for name in ['slot', 'wait_seconds', 'finite', 'operation', 'sequence', 'deletes', 'before_images', 'position', 'xid'] -%}
        {%- do feed.update({name: options.get(name)}) -%}
    {%- endfor -%}
    {{ return(dbt_backfill.check_feed_table(feed, dbt_backfill.get_table_columns(upstream)) if feed.format == 'debezium' and kind else feed) }}
{% endmacro %}


{#- Return the name of a table in PostgreSQL, with its schema: from `change_feed` if it sets `table`, otherwise from the relation. -#}
{% macro get_postgres_name(upstream, change_feed) %}
    {{ return(change_feed.get('table') or upstream.schema.split('.')[1:] | join('.') ~ '.' ~ upstream.identifier) }}
{% endmacro %}


{#- Return the feed that a plan has recorded, see postgres_read_upstream. -#}
{% macro postgres_noted_feed(source) %}
    {%- set noted = fromjson(source.definition) -%}
    {{ return(dict(noted, relation=dbt_backfill.parse_relation(noted.relation), wait_seconds=60)) }}
{% endmacro %}


{#- Refuse a change table that does not exist, or has no event. `landed`: how far events have landed; none if not known. -#}
{% macro check_postgres_change_table(upstream, landed=0) %}
    {%- set feed = upstream.feed -%}
    {%- set name = feed.relation.render() -%}
    {%- set change = 'Land the changes of ' ~ feed.table ~ ' first' ~ (': dbt run-operation land_changes' if feed.format == 'landed' else '') -%}
    {%- do dbt_backfill.refuse_first([
        {'when': feed.kind is none, 'id': 'change-table-missing', 'fact': 'its change_feed ' ~ name ~ ' does not exist', 'change': change},
        {'id': 'change-table-empty', 'when': landed is none,
         'fact': 'its change_feed ' ~ name ~ ' has neither an event nor a watermark, so a run cannot find out which changes have landed',
         'change': change},
    ]) -%}
{% endmacro %}


{#-
    Refuse a change table that lacks a column of its format, or a column of the upstream. Return the feed. For Debezium's events, the feed also has
      'conversions': for each column, by its name in lower case, the type to which its values are converted; `days` if a date is written as the number
        of days since 1970. A column that already has the upstream's type is absent.
    `upstream_columns`: the columns that are read, with Spark's types.
-#}
{% macro check_feed_table(feed, upstream_columns) %}
    {%- set types, numbers, needs = {}, ['bigint', 'int', 'smallint', 'tinyint'], [] -%}
    {%- for column in dbt_backfill.get_table_columns(feed.relation) -%} {%- do types.update({column.name | lower: column.type | lower}) -%} {%- endfor -%}
    {%- if feed.format == 'declared' -%}
        {%- do needs.extend([(feed.operation, []), (feed.position, numbers)]) -%}
        {%- for name in feed.sequence -%} {%- do needs.append((name, [])) -%} {%- endfor -%}
        {%- if feed.xid -%} {%- do needs.append((feed.xid, numbers)) -%} {%- endif -%}
    {%- elif feed.format == 'debezium' -%}
        {%- do needs.extend([('op', ['string']), ('before', ['struct<']), ('after', ['struct<']), ('source', ['struct<'])]) -%}
    {%- else -%}
        {%- do needs.extend([
            ('_op', ['string']), ('_lsn', ['bigint']), ('_seq', ['bigint']), ('_xid', ['bigint']), ('_unchanged', ['array<string>']),
        ]) -%}
    {%- endif -%}
    {%- do dbt_backfill._check_feed_needs(feed, types, needs) -%}
    {%- if feed.format == 'declared' -%} {%- do dbt_backfill.check_sequence(feed, types) -%} {%- endif -%}
    {%- if feed.format != 'debezium' -%}
        {%- for column in upstream_columns -%}
            {%- do dbt_backfill._get_feed_conversion(feed, column, types.get(column.name | lower), converts=false) -%}
        {%- endfor -%}
        {{ return(feed) }}
    {%- endif -%}
    {%- set parts, listed, conversions = {'after': {}, 'before': {}, 'source': {}}, ['after'], {} -%}
    {%- set sql = 'describe query select after.*, 0 as __bf_before, before.*, 0 as __bf_source, source.* from ' ~ feed.relation.render() -%}
    {%- for row in dbt_backfill.run_table('look at what the events of the change feed contain', sql) -%}
        {%- if row[0] in ['__bf_before', '__bf_source'] -%} {%- do listed.append(row[0][5:]) -%}
        {%- else -%} {%- do parts[listed[-1]].update({row[0] | lower: row[1] | lower}) -%} {%- endif -%}
    {%- endfor -%}
    {%- do dbt_backfill._check_feed_needs(feed, parts.source, [
        ('lsn', ['bigint']), ('sequence', ['string']), ('txId', ['bigint', 'int']), ('schema', ['string']), ('table', ['string']),
        ('snapshot', ['string']),
    ]) -%}
    {%- for column in upstream_columns -%}
        {%- set type, before = parts.after.get(column.name | lower), parts.before.get(column.name | lower) -%}
        {%- do dbt_backfill._get_feed_conversion(feed, column, before, converts=before == type) -%}
        {%- set conversion = dbt_backfill._get_feed_conversion(feed, column, type, converts=before == type) -%}
        {%- if conversion -%} {%- do conversions.update({column.name | lower: conversion}) -%} {%- endif -%}
    {%- endfor -%}
    {{ return(dict(feed, conversions=conversions)) }}
{% endmacro %}


{#- Refuse a change table that lacks a column of `needs`, pairs of a name and allowed types. `struct<` allows any struct, [] any type. -#}
{% macro _check_feed_needs(feed, types, needs) %}
    {%- for name, wanted in needs -%}
        {%- set type = types.get(name | lower) -%}
        {%- if type is none or wanted and type not in wanted and type.split('<')[0] ~ '<' not in wanted -%}
            {%- do dbt_backfill.refuse(
                'its change_feed ' ~ feed.relation.render() ~ ' has ' ~ (name ~ ' as ' ~ type if type is not none else 'no ' ~ name)
                    ~ ', but its format ' ~ feed.format ~ ' needs it'
                    ~ (' as ' ~ wanted | join(' or ') | replace('struct<', 'struct') if wanted else ''),
                'Add that column to the change table, or set in change_feed the format and columns that the table has',
                id='change-table-format-column') -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- Return the type that a column of this Spark type has in a change table. A change table stores char(n) and varchar(n) as string. -#}
{% macro get_plain_type(type) %}
    {{ return('string' if (type | lower).startswith(('char(', 'varchar(')) else type | lower) }}
{% endmacro %}


{#- Return the type to which the values of a column of the feed are converted; none if they are not converted. Refuse a missing column, and a type
    that cannot be converted. `converts`: false if no value may be converted. -#}
{% macro _get_feed_conversion(feed, column, type, converts) %}
    {%- set wanted = dbt_backfill.get_plain_type(column.type) -%}
    {%- set integers = ['tinyint', 'smallint', 'int', 'bigint'] -%}
    {#- Iceberg has no integer type that is smaller than int. -#}
    {%- if type == wanted or not converts and type == 'int' and wanted in ['tinyint', 'smallint'] -%} {{ return(none) }} {%- endif -%}
    {%- set is_read = wanted in integers + ['date'] if type in integers else wanted == 'float' if type == 'double'
        else type == 'string' and (wanted in integers + ['float', 'double', 'date', 'timestamp'] or wanted.startswith('decimal')) -%}
    {%- if converts and is_read -%} {{ return('days' if type in integers and wanted == 'date' else wanted) }} {%- endif -%}
    {%- do dbt_backfill.refuse(
        'its change_feed ' ~ feed.relation.render()
            ~ (' has ' ~ column.name ~ ' as ' ~ type if type else ' has no column ' ~ column.name)
            ~ ', but its upstream ' ~ feed.table ~ ' has it as ' ~ column.type,
        'Give the change table the columns of the upstream, with their names and types'
            ~ ('; docs/postgres_feeds.md says which types of Debezium are converted' if converts else ''), id='change-table-column-type') -%}
{% endmacro %}
