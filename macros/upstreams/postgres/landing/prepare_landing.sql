{#-
    The same landing, ready to be landed: its slot exists, and its tables, each with {
      'facts': see get_postgres_facts_query,
      'kind': of the change table, `delta` or `iceberg`,
      'columns': of the change table, without its own: {
        'name', 'type': of Spark, 'source_type': of PostgreSQL, 'told': whether the table in PostgreSQL has it,
        'doubtful': whether a null that wal2json tells of it is none
      },
      'key_columns': see get_key_columns
    }
    and {'confirmed': the position from which the slot tells}.
-#}
{% macro prepare_landing(landing) %}
    {%- set read = [] -%}
    {%- for table in landing.tables -%}
        {%- set facts = dbt_backfill.read_from_postgres(landing, 'read what PostgreSQL knows of ' ~ table.table,
            dbt_backfill.get_postgres_facts_query(table.table, landing.slot)) -%}
        {%- do dbt_backfill.check_landed_facts(landing, table, facts) -%}
        {%- if not dbt_backfill.get_postgres_told_keys(facts) -%}
            {%- do log(table.table ~ ': its events tell no key of a row that is gone; a run of what reads it says why', info=true) -%}
        {%- endif -%}
        {%- do read.append(dict(table, facts=facts)) -%}
    {%- endfor -%}
    {%- if not dbt_backfill.goes_on(read[0].facts.slot) -%} {%- do dbt_backfill.check_wal2json(landing) -%} {%- endif -%}
    {%- set tables = [] -%}
    {%- for table in read -%} {%- do tables.append(dbt_backfill.prepare_change_table(table)) -%} {%- endfor -%}
    {%- set landing = dict(landing, tables=tables) -%}
    {{ return(dict(landing, confirmed=dbt_backfill.prepare_slot(landing, read[0].facts))) }}
{% endmacro %}


{% macro check_landed_facts(landing, table, facts) %}
    {%- set slot = facts.slot -%}
    {%- if facts.in_recovery -%}
        {%- do dbt_backfill.refuse('its database is a standby, of which no changes can be landed', 'Name the primary in the url of the catalog ' ~ landing.catalog, mv=table.name) -%}
    {%- elif facts.wal_level != 'logical' -%}
        {%- do dbt_backfill.refuse(
            'the wal_level of its database is ' ~ facts.wal_level ~ ', so that its WAL tells no changes of rows', 'Set wal_level = logical in PostgreSQL and restart it', mv=table.name
        ) -%}
    {%- elif not facts.replication -%}
        {%- do dbt_backfill.refuse(
            'the user ' ~ facts.user ~ ' of PostgreSQL may not read a replication slot',
            'Execute alter role … replication in PostgreSQL, or on Amazon RDS grant rds_replication to …', mv=table.name
        ) -%}
    {%- elif facts.output_plugins is not none and 'wal2json' not in facts.output_plugins -%}
        {%- do dbt_backfill.refuse(
            'PostgreSQL does not allow the output plugin wal2json', 'Add it to output_plugin_libraries in PostgreSQL, which has ' ~ (facts.output_plugins or 'none'), mv=table.name
        ) -%}
    {%- elif not facts.found -%}
        {%- do dbt_backfill.refuse(
            'PostgreSQL has no table ' ~ table.table, "Write table in change_feed as PostgreSQL has it, without quotes, such as 'public.Orders'", mv=table.name
        ) -%}
    {%- elif slot and slot.database != facts.database -%}
        {%- do dbt_backfill.refuse(
            'the slot ' ~ landing.slot ~ ' is one of the database ' ~ slot.database, 'Name another slot in change_feed, which land_changes makes', mv=table.name
        ) -%}
    {%- elif slot and slot.plugin != 'wal2json' -%}
        {%- do dbt_backfill.refuse(
            'the slot ' ~ landing.slot ~ ' has the output plugin ' ~ slot.plugin ~ ', and changes are landed from wal2json',
            'Name another slot in change_feed, which land_changes makes', mv=table.name
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill.check_postgres_session(facts, table.name) -%}
{% endmacro %}


{#- Whether a slot is there and has the WAL that it has not told yet. -#}
{% macro goes_on(slot) %}
    {{ return(slot is not none and slot.wal_status != 'lost') }}
{% endmacro %}


{#- Refuse a PostgreSQL that cannot load wal2json, by a slot that is gone at once. -#}
{% macro check_wal2json(landing) %}
    {%- set attempt = dbt_backfill.get_attempt_block(dbt_backfill.get_temporary_slot_name(landing.slot)) -%}
    {%- set error = dbt_backfill.read_from_postgres(landing, 'see whether PostgreSQL has wal2json', dbt_backfill.get_attempt_query(), attempt).error -%}
    {%- if error -%}
        {%- do dbt_backfill.refuse(
            'PostgreSQL makes no slot with the output plugin wal2json: ' ~ error,
            'If it is missing, install it on the server (Debian: postgresql-15-wal2json), and where PostgreSQL has the setting, add it to output_plugin_libraries',
            mv=landing.tables[0].name
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Returns from where on the slot tells. None is made of a database whose WAL is behind a change table: once the WAL has passed by, a
    slot of before would not tell that the database was put back.
-#}
{% macro prepare_slot(landing, facts) %}
    {%- if dbt_backfill.goes_on(facts.slot) -%} {{ return(facts.slot.confirmed) }} {%- endif -%}
    {%- for place in dbt_backfill.read_landed_places(landing) -%}
        {%- do dbt_backfill.check_landed_place(landing, landing.tables[loop.index0], place) -%}
    {%- endfor -%}
    {%- if facts.slot -%}
        {%- do dbt_backfill.run_table('drop the slot ' ~ landing.slot, dbt_backfill.get_postgres_query_sql(
            landing.catalog, dbt_backfill.get_drop_slot_query(landing.slot))) -%}
        {%- do log('slot ' ~ landing.slot ~ ': PostgreSQL has removed WAL that it had not told yet; made anew', info=true) -%}
    {%- endif -%}
    {%- do dbt_backfill.run_table('make the slot ' ~ landing.slot, dbt_backfill.get_postgres_query_sql(
        landing.catalog, dbt_backfill.get_create_slot_query(landing.slot))) -%}
    {{ return(dbt_backfill.read_wal(landing).slot.confirmed) }}
{% endmacro %}


{#- Where the WAL and the slot stand now, see get_postgres_facts_query. -#}
{% macro read_wal(landing) %}
    {{ return(dbt_backfill.read_from_postgres(landing, 'see where the slot ' ~ landing.slot ~ ' stands',
        dbt_backfill.get_postgres_facts_query('', landing.slot))) }}
{% endmacro %}


{#- Creates the change table, or gives it the columns that its table has got since. -#}
{% macro prepare_change_table(table) %}
    {%- set found = dbt_backfill.find_table(table.relation) if dbt_backfill.get_catalog(table.relation) else adapter.get_relation(none, table.relation.schema, table.relation.identifier) -%}
    {%- set kind = dbt_backfill.get_table_format(found, table.relation) if found else table.format -%}
    {%- set columns = dbt_backfill.get_columns_to_land(table, kind) -%}
    {%- if found is none -%}
        {%- do dbt_backfill.run_table('create ' ~ table.relation.identifier, dbt_backfill.get_create_change_table_sql(table, columns)) -%}
        {{ return(dict(table, kind=kind, columns=columns, key_columns=dbt_backfill.get_key_columns(table, columns))) }}
    {%- endif -%}
    {%- set present, own, known = dbt_backfill.get_table_columns(table.relation), dbt_backfill.landed_columns() | map(attribute='name') | list, {} -%}
    {%- for column in present if column.name not in own -%} {%- do known.update({column.name | lower: column}) -%} {%- endfor -%}
    {%- set added, all = [], [] -%}
    {%- for column in columns -%}
        {%- do dbt_backfill.check_landed_type(table, column, known.pop(column.name | lower, none)) -%}
        {%- if column.name | lower not in present | map(attribute='name') | map('lower') | list -%} {%- do added.append(column) -%} {%- endif -%}
    {%- endfor -%}
    {%- for column in dbt_backfill.landed_columns() if column.name not in present | map(attribute='name') | list -%}
        {%- do added.append(column) -%}
    {%- endfor -%}
    {%- if added -%}
        {%- set definitions = dbt_backfill.column_definitions(added) -%}
        {%- do dbt_backfill.run_table('add columns to ' ~ table.relation.identifier, 'alter table ' ~ table.relation.render() ~ ' add columns (' ~ definitions ~ ')') -%}
        {%- do log(table.table ~ ': ' ~ table.relation.render() ~ ' gets ' ~ definitions, info=true) -%}
    {%- endif -%}
    {%- for column in known.values() -%} {%- do all.append(dict(column, source_type=none, told=false, doubtful=false)) -%} {%- endfor -%}
    {{ return(dict(table, kind=kind, columns=columns + all, key_columns=dbt_backfill.get_key_columns(table, columns))) }}
{% endmacro %}


{% macro check_landed_type(table, column, known) %}
    {%- if known and known.type | lower != column.type | lower -%}
        {%- do dbt_backfill.refuse(
            'its change_feed ' ~ table.relation.render() ~ ' has ' ~ column.name ~ ' as ' ~ known.type ~ ', and ' ~ table.table ~ ' as ' ~ column.type,
            'Drop ' ~ table.relation.render() ~ ': it is landed anew, and what reads it begins anew', mv=table.name
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Those of the table that both Spark and the WAL tell, see check_postgres_table; of the others no model may read one. -#}
{% macro get_columns_to_land(table, kind) %}
    {%- set types, columns, left = {}, [], [] -%}
    {%- for column in dbt_backfill.get_table_columns(table.upstream) -%}
        {%- do types.update({column.name: dbt_backfill.get_kept_type(dbt_backfill.get_plain_type(column.type), kind)}) -%}
    {%- endfor -%}
    {%- for column in table.facts.columns -%}
        {%- do dbt_backfill.check_distinct_name(table.facts, column, table.name) -%}
        {%- if column.name | lower in dbt_backfill.landed_columns() | map(attribute='name') | list -%}
            {%- do dbt_backfill.refuse(
                table.table ~ ' has a column ' ~ column.name ~ ', which a change table has of its own', 'Give it another name in PostgreSQL', mv=table.name
            ) -%}
        {%- elif column.name in types and dbt_backfill.is_postgres_read_type(column) -%}
            {%- do columns.append({
                'name': column.name, 'type': types[column.name], 'source_type': column.type, 'told': column.generated != 'v',
                'doubtful': column.not_null and column.type in ['float4', 'float8', 'numeric'] and not column.finite,
            }) -%}
        {%- else -%}
            {%- do left.append(column.name ~ ' (' ~ column.shown ~ ')') -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if left -%} {%- do log(table.table ~ ': not landed: ' ~ left | join(', '), info=true) -%} {%- endif -%}
    {{ return(columns) }}
{% endmacro %}


{#- Of all keys that a model may have: an update of one of these columns may be one of the key. -#}
{% macro get_key_columns(table, columns) %}
    {%- set keys, found = [], [] -%}
    {%- for key in dbt_backfill.get_postgres_told_keys(table.facts) -%} {%- do keys.extend(key) -%} {%- endfor -%}
    {%- for column in columns if column.name in keys -%} {%- do found.append(column.name) -%} {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{% macro get_create_change_table_sql(table, columns) -%}
    {%- set properties = dbt_backfill.exact_table_properties(table.format) -%}
    {%- if table.format == 'delta' and dbt_backfill.needs_column_mapping(columns | map(attribute='name') | list) -%}
        {%- do properties.update({'delta.columnMapping.mode': 'name'}) -%}
    {%- endif -%}
    create table if not exists {{ table.relation.render() }} ({{ dbt_backfill.column_definitions(columns + dbt_backfill.landed_columns()) }})
    using {{ table.format }}
    tblproperties {{ dbt_backfill.property_list(properties) }}
{%- endmacro %}
