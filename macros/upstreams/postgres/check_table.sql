{#- Refuse a table of PostgreSQL whose rows or changes cannot be read exactly. `facts`: the result of get_followed_facts. `columns`: the names of the
    columns that the query reads; all other columns may have any type. `key`: the names of the upstream's columns that form unique_key. -#}
{% macro check_postgres_table(facts, columns, key, mv=none) %}
    {%- do dbt_backfill.refuse_first([
        {'when': facts.version < 130000, 'fact': 'its upstream is in PostgreSQL ' ~ facts.version // 10000 ~ ', which is too old',
         'id': 'postgresql-too-old', 'change': 'Use version 13 or later, which reports the transactions that a reader sees'},
        {'when': facts.in_recovery, 'fact': 'its upstream is in a standby of PostgreSQL, which may lack changes that have already landed',
         'id': 'postgresql-standby', 'change': 'Let the JDBC catalog connect to the primary'},
        {'when': facts.wal_level != 'logical',
         'id': 'wal-level', 'fact': 'the wal_level of its upstream is ' ~ facts.wal_level ~ ', so its WAL contains no changes of rows',
         'change': 'Set wal_level = logical in PostgreSQL and restart it'},
    ], mv) -%}
    {%- do dbt_backfill.check_postgres_session(facts, mv) -%}
    {%- set where = 'the database ' ~ facts.database ~ ' of PostgreSQL' -%}
    {%- set kinds = {'v': 'a view', 'm': 'a materialized view', 'f': 'a foreign table', 'p': 'a partitioned table'} -%}
    {%- do dbt_backfill.refuse_first([
        {'id': 'postgresql-table-not-found', 'when': facts.found != 1,
         'fact': where ~ ' has ' ~ (facts.found ~ ' tables' if facts.found else 'no table') ~ ' with the name of its upstream',
         'change': "Write table in change_feed as PostgreSQL has it, without quotes, such as 'public.Orders'"},
        {'id': 'postgresql-relation-kind', 'when': facts.get('kind') != 'r',
         'fact': 'its upstream is ' ~ kinds.get(facts.get('kind')) ~ ' of PostgreSQL, for which the WAL reports no changes',
         'change': 'Read each partition by a model, and unite the models in a view; or put the rows into a table that is not partitioned'
            if facts.get('kind') == 'p' else 'Read the underlying table'},
        {'when': facts.get('has_children'), 'fact': 'other tables inherit from its upstream, and the WAL reports their changes under their own names',
         'id': 'postgresql-inheritance', 'change': 'Read each of the inheriting tables by a model of its own'},
        {'when': facts.get('persistence') != 'p', 'fact': 'its upstream is an unlogged or temporary table, for which the WAL reports no changes',
         'id': 'postgresql-unlogged-table', 'change': 'Execute alter table … set logged in PostgreSQL'},
        {'when': not facts.get('may_select'), 'fact': 'the user ' ~ facts.user ~ ' of PostgreSQL may not read its upstream',
         'id': 'postgresql-select-denied', 'change': 'Execute grant select on … to … in PostgreSQL'},
        {'id': 'postgresql-row-security', 'when': facts.get('row_security'),
         'fact': 'row-level security hides rows of its upstream from the user ' ~ facts.user ~ ', but the WAL contains these rows',
         'change': 'Give the JDBC catalog a user with BYPASSRLS'},
    ], mv) -%}
    {%- set same, wanted, described = [], key | map('lower') | sort, key | join(', ') -%}
    {%- for index in facts['keys'] if index.columns | map('lower') | sort == wanted -%} {%- do same.append(index) -%} {%- endfor -%}
    {%- set kept, primary = same | rejectattr('deferrable') | list, facts['keys'] | selectattr('primary') | list -%}
    {%- set is_debezium, told = facts.get('format') == 'debezium', (facts.identity_columns or []) | map('lower') | list -%}
    {%- do dbt_backfill.refuse_first([
        {'id': 'postgresql-key-not-unique', 'when': not same,
         'fact': 'its unique_key ' ~ described ~ ' is neither the primary key of its upstream nor a unique index over columns that are not null',
         'change': 'Set unique_key to columns of such a key'
            ~ (': ' ~ facts['keys'][0].columns | join(', ') if facts['keys'] else '. First create such a key')},
        {'id': 'postgresql-key-deferrable', 'when': not kept,
         'fact': 'the constraint on the key ' ~ described ~ ' of its upstream is deferrable, so within a transaction a key may appear twice',
         'change': 'Create the constraint as not deferrable'},
        {'id': 'debezium-not-primary-key', 'when': is_debezium and primary and not kept | selectattr('primary') | list,
         'fact': 'its unique_key ' ~ described ~ ' is not the primary key of its upstream, so Debezium does not report an update '
            ~ 'of this key',
         'change': 'Name the primary key in unique_key, or let land_changes land the changes'},
        {'when': is_debezium and not primary and facts.unique_indexes > 1,
         'id': 'debezium-several-indexes', 'fact': 'its upstream has no primary key but ' ~ facts.unique_indexes
            ~ ' unique indexes, and Debezium reports an update of the key for only one of these indexes',
         'change': 'Make ' ~ described ~ ' its primary key in PostgreSQL, or let land_changes land the changes'},
        {'when': wanted | reject('in', told) | list,
         'id': 'replica-identity', 'fact': 'the REPLICA IDENTITY of its upstream is '
            ~ {'d': 'default', 'n': 'nothing', 'i': 'using index', 'f': 'full'}[facts.identity]
            ~ ', so the event of a deleted row does not contain the key ' ~ described,
         'change': 'Execute alter table … replica identity using index … with the index of that key, or full, in PostgreSQL'},
    ], mv) -%}
    {%- set keys = key | map('lower') | list -%}
    {%- for column in facts.columns if column.name | lower in columns | map('lower') | list + keys -%}
        {%- do dbt_backfill.check_distinct_name(facts, column, mv) -%}
        {%- do dbt_backfill._check_postgres_column(facts, column, column.name | lower in keys, mv) -%}
    {%- endfor -%}
{% endmacro %}


{#- Refuse a column if another column's name differs from its name only in upper or lower case: to Spark, these names are equal. -#}
{% macro check_distinct_name(facts, column, mv) %}
    {%- set twins = facts.columns | map(attribute='name') | map('lower') | select('equalto', column.name | lower) | list -%}
    {%- if twins | length > 1 -%}
        {%- do dbt_backfill.refuse('its upstream has ' ~ twins | length ~ " columns '" ~ column.name ~ "' that differ only in case",
            'Rename one of these columns in PostgreSQL; Spark treats them as one column', mv=mv, id='postgresql-column-case') -%}
    {%- endif -%}
{% endmacro %}


{#- Refuse settings with which a connection would miss rows. The bounds of a range and the names of tables are sent as strings, in which a backslash
    must be an ordinary character. With an isolation level above `read committed`, a transaction would see no rows of a table that was rewritten after
    the transaction began. -#}
{% macro check_postgres_session(facts, mv) %}
    {%- set role = 'Execute alter role ' ~ facts.user ~ ' set ' -%}
    {%- do dbt_backfill.refuse_first([
        {'id': 'standard-conforming-strings', 'when': facts.conforming_strings != 'on',
         'fact': 'its PostgreSQL has standard_conforming_strings = ' ~ facts.conforming_strings ~ ', so a backslash in a string is an escape',
         'change': role ~ 'standard_conforming_strings = on in PostgreSQL'},
        {'id': 'transaction-isolation', 'when': facts.isolation != 'read committed',
         'fact': 'its PostgreSQL has default_transaction_isolation = ' ~ facts.isolation ~ ', so a table that was rewritten may seem empty',
         'change': role ~ "default_transaction_isolation = 'read committed' in PostgreSQL"},
    ], mv) -%}
{% endmacro %}


{#- Refuse a server or a table whose changes cannot be landed from the slot, see run_landing. -#}
{% macro check_landed_facts(landing, table, facts) %}
    {%- set slot, other_slot = facts.slot or {}, 'Name another slot in change_feed: land_changes creates it' -%}
    {%- do dbt_backfill.refuse_first([
        {'when': facts.in_recovery, 'id': 'landing-from-standby', 'fact': 'its database is a standby, from which no changes can be landed',
         'change': 'Name the primary in the url of the catalog ' ~ landing.catalog},
        {'when': facts.wal_level != 'logical',
         'id': 'landing-wal-level', 'fact': 'the wal_level of its database is ' ~ facts.wal_level ~ ', so its WAL contains no changes of rows',
         'change': 'Set wal_level = logical in PostgreSQL and restart it'},
        {'when': not facts.replication, 'fact': 'the user ' ~ facts.user ~ ' of PostgreSQL may not read a replication slot',
         'id': 'landing-role-denied', 'change': 'Execute alter role … replication in PostgreSQL, or on Amazon RDS grant rds_replication to …'},
        {'when': facts.output_plugins is not none and 'wal2json' not in (facts.output_plugins or ''),
         'id': 'landing-plugin-denied', 'fact': 'PostgreSQL does not allow the output plugin wal2json',
         'change': 'Add wal2json to output_plugin_libraries in PostgreSQL, which has ' ~ (facts.output_plugins or 'none')},
        {'when': not facts.found, 'id': 'landing-table-not-found', 'fact': 'PostgreSQL has no table ' ~ table.table,
         'change': "Write table in change_feed as PostgreSQL has it, without quotes, such as 'public.Orders'"},
        {'when': slot and slot.get('database') != facts.database,
         'id': 'slot-of-another-database', 'fact': 'the slot ' ~ landing.slot ~ ' belongs to the database ' ~ slot.get('database'),
         'change': other_slot},
        {'id': 'slot-of-another-plugin', 'when': slot and slot.get('plugin') != 'wal2json',
         'fact': 'the slot ' ~ landing.slot ~ ' has the output plugin ' ~ slot.get('plugin') ~ ', but land_changes needs wal2json',
         'change': other_slot},
    ], table.name) -%}
    {%- do dbt_backfill.check_postgres_session(facts, table.name) -%}
{% endmacro %}


{#- Return the keys that each event of the table contains, as lists of columns; [] if the WAL does not contain all changes. -#}
{% macro get_postgres_told_keys(facts) %}
    {%- set told, keys = facts.identity_columns or [], [] -%}
    {%- if facts.kind != 'r' or facts.has_children or facts.persistence != 'p' -%} {{ return([]) }} {%- endif -%}
    {%- for index in facts['keys'] if not index.deferrable and not index.columns | reject('in', told) | list -%}
        {%- do keys.append(index.columns) -%}
    {%- endfor -%}
    {{ return(keys) }}
{% endmacro %}


{#- True if a null that wal2json writes for the column may be a NaN or an infinity. -#}
{% macro has_doubtful_nulls(column) %}
    {{ return(column.type in ['float4', 'float8', 'numeric'] and not column.not_null and not column.finite) }}
{% endmacro %}


{#- True if Spark's JDBC reader and the WAL show the values of the column's type in the same way. Spark reads values of some types as strings, among
    them enums and citext, which are not builtin types. For these types the text in the WAL must be equal to the string. -#}
{% macro _is_told_alike(column) %}
    {{ return(column.type in [
        'bool', 'int2', 'int4', 'int8', 'oid', 'float4', 'float8', 'numeric', 'date', 'timestamp', 'timestamptz', 'bytea',
        'text', 'varchar', 'bpchar', 'name', 'uuid', 'json', 'jsonb', 'xml', 'inet', 'cidr', 'macaddr', 'macaddr8',
    ] if column.builtin else column.typtype == 'e' or column.type == 'citext') }}
{% endmacro %}


{#- True if values of the column's type can be read. Spark would round some decimals. The table and the feed are not checked here. -#}
{% macro is_postgres_read_type(column) %}
    {{ return(dbt_backfill._is_told_alike(column) and (
        column.type != 'numeric' or column.precision is not none and column.precision <= 38 and column.scale >= 0 and column.scale <= column.precision
    )) }}
{% endmacro %}


{#- Refuse a column that the query cannot read exactly. A column of the key must also have the same order in PostgreSQL and in Spark: PostgreSQL
    compares the values with the bounds of a range, and Spark compares the values with positions. -#}
{% macro _check_postgres_column(facts, column, is_key, mv) %}
    {%- set described = 'its upstream has the column ' ~ column.name ~ ' of type ' ~ column.shown -%}
    {%- set described_key = 'the key ' ~ column.name ~ ' of its upstream is of type ' ~ column.shown -%}
    {%- set set_utc = 'Start Spark with -Duser.timezone=UTC in spark.driver.extraJavaOptions and spark.executor.extraJavaOptions' -%}
    {%- set is_utc = dbt_backfill.is_postgres_utc(facts) -%}
    {%- do dbt_backfill.refuse_first([
        {'id': 'postgresql-type-differs', 'when': not dbt_backfill._is_told_alike(column),
         'fact': described ~ ', but Spark and the WAL show its values differently',
         'change': 'Leave the column out of the query, or add a column of another type with the same value, such as text'},
        {'id': 'postgresql-numeric-rounded', 'when': not dbt_backfill.is_postgres_read_type(column),
         'fact': described ~ ', but Spark would round its values',
         'change': 'Give the column a precision of at most 38 digits, such as numeric(38, 10), or leave the column out of the query'},
        {'when': facts.plugin == 'wal2json' and dbt_backfill.has_doubtful_nulls(column),
         'id': 'postgresql-nan-as-null', 'fact': described ~ ', but wal2json writes its NaN or infinity as null',
         'change': 'Declare the column not null, or add check (' ~ (column.name if column.type == 'numeric' else 'abs(' ~ column.name ~ ')')
            ~ " < 'Infinity') to the table, or leave the column out of the query; if there is no such value, set 'finite': true in change_feed"},
        {'when': column.generated == 'v' or column.generated and facts.plugin not in ['wal2json', 'test_decoding'],
         'fact': 'the column ' ~ column.name ~ ' of its upstream is generated, so the change feed may not contain its values',
         'id': 'postgresql-generated-column', 'change': 'Compute the value in the query, from the columns from which PostgreSQL generates it'},
        {'when': column.type == 'timestamp' and not is_utc,
         'id': 'postgresql-timestamp-zone', 'fact': described ~ ', but Spark reads it in the time zone of its JVM, which is ' ~ facts.zone,
         'change': set_utc},
        {'when': is_key and not (column.builtin and column.type in [
            'bool', 'int2', 'int4', 'int8', 'numeric', 'date', 'timestamp', 'timestamptz', 'bytea', 'text', 'varchar', 'uuid',
         ]),
         'id': 'postgresql-key-order', 'fact': described_key ~ ', but PostgreSQL and Spark order this type differently',
         'change': 'Name columns of another type in unique_key'},
        {'when': is_key and column.type == 'timestamptz' and not is_utc,
         'id': 'postgresql-key-zone', 'fact': described_key ~ ', but Spark compares it in the time zone of its JVM, which is ' ~ facts.zone,
         'change': set_utc},
        {'when': is_key and column.type in ['text', 'varchar'] and not (column.collation.bytewise and facts.encoding in ['UTF8', 'SQL_ASCII']),
         'fact': described_key ~ ' with the collation ' ~ (column.collation or {}).get('name') ~ ', so PostgreSQL and Spark order it differently',
         'id': 'postgresql-key-collation', 'change': 'Execute alter table … alter column ' ~ column.name ~ ' type ' ~ column.shown
            ~ ' collate "C" in PostgreSQL, or name other columns in unique_key'},
    ], mv) -%}
{% endmacro %}


{% macro is_postgres_utc(facts) %}
    {{ return(facts.zone in ['UTC', 'Etc/UTC', 'GMT', 'Etc/GMT', 'Z', 'UCT', 'Etc/UCT', 'Zulu', 'Etc/Zulu', 'Universal', 'Etc/Universal']) }}
{% endmacro %}


{#- Refuse a session that sends the bounds of a range in a time zone other than the JVM's. PostgreSQL reads the bounds in the time zone of the JVM.
    The settings of the session are read only if a column of the key has a type for which the time zone matters. `keys`: the key of the plan. -#}
{% macro check_postgres_key_zone(observed, keys, mv) %}
    {%- set zoned = keys | selectattr('type', 'equalto', 'timestamp') | map(attribute='upstream') | list -%}
    {%- if not zoned or dbt_backfill.is_postgres_utc(observed) -%} {{ return(none) }} {%- endif -%}
    {%- set name = 'spark.sql.datetime.java8API.enabled' -%}
    {%- if dbt_backfill.read_settings().get(name, 'false') | lower == 'true' -%}
        {%- do dbt_backfill.refuse(
            'the key ' ~ zoned[0] ~ ' of its upstream is a timestamp, but the session has ' ~ name ~ ' on, '
                ~ 'so Spark writes the bounds of a range in the time zone ' ~ observed.zone,
            'Set spark.sql.session.timeZone to UTC, or ' ~ name ~ ' to false, for dbt (server_side_parameters, or the Spark server)', mv=mv,
            id='postgresql-bound-zone') -%}
    {%- endif -%}
{% endmacro %}
