{#-
    Return a query in PostgreSQL's SQL, see get_postgres_query_sql. Its column value_1 is one JSON object with all facts about a table, and about the
    slot that has the table's changes. Every user may run the query, and the query reads no row of the table. {
      'system_identifier': the id of the cluster, as text. The id changes if the data are restored from a dump, but not at a failover,
      'timeline': the timeline of the WAL; it changes at a failover,
      'in_recovery': true if the server is a standby, 'version': as server_version_num, 'wal_level', 'encoding',
      'zone': the time zone of the connection, which is the time zone of the JVM that reads,
      'conforming_strings', 'isolation': standard_conforming_strings and default_transaction_isolation of the connection,
      'database', 'user': names, 'replication': true if the user may read a slot, according to the user's roles, 'position': the position of the WAL,
      'output_plugins': the plugins that may be loaded, as text; null if the server's version has no such setting and allows all installed plugins,
      'found': the number of tables with this name. More than one table is only possible if names contain dots. If there is no table, all values below
        are null, and 'columns' is [],
      'oid': text, 'file': relfilenode, which changes if the table is rewritten,
      'kind': as relkind, 'is_partition', 'has_children', 'persistence': as relpersistence,
      'may_select', 'row_security': true if policies hide rows from the user,
      'keys': the primary key and the unique indexes over columns that are not null, as {'columns', 'primary', 'deferrable'},
      'unique_indexes': the number of unique indexes of any kind,
      'identity': as relreplident, 'identity_columns': the columns of the previous row that an event contains; null if there are none,
      'columns': in order, see _get_postgres_columns_query,
      'slot': null if there is no slot of that name, or {'plugin', 'type', 'database', 'active', 'temporary', 'wal_status', 'safe_wal_size',
        'restart': restart_lsn, 'confirmed': confirmed_flush_lsn, 'held': bytes of WAL that it keeps}
    }
    A position is a number of bytes. `table`: the table's schema and name as PostgreSQL stores them, without quotes.
-#}
{% macro get_postgres_facts_query(table, slot=none) -%}
    {%- set position = '(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end)' -%}
    select (jsonb_build_object(
        'system_identifier', (select system_identifier::text from pg_control_system()),
        {#- The control file has only the timeline of the last checkpoint, so a primary reads the timeline from the name of its WAL file. #}
        'timeline', case when pg_is_in_recovery() then (select timeline_id from pg_control_checkpoint())
            else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int end,
        'in_recovery', pg_is_in_recovery(),
        'version', current_setting('server_version_num')::int,
        'wal_level', current_setting('wal_level'),
        'encoding', current_setting('server_encoding'),
        'zone', current_setting('TimeZone'),
        'conforming_strings', current_setting('standard_conforming_strings'),
        'isolation', current_setting('default_transaction_isolation'),
        'database', current_database(),
        'user', current_user,
        {#- On Amazon RDS, no user has the attribute rolreplication. Instead, members of these roles may read a slot. #}
        'replication', (
            select coalesce(bool_or(case when rolname = current_user then rolreplication or rolsuper else pg_has_role(oid, 'member') end), false)
            from pg_roles
            where rolname = current_user or rolname in ('rds_replication', 'rds_superuser', 'rdsadmin', 'rdsrepladmin')
        ),
        'position', ({{ position }} - '0/0')::bigint,
        'output_plugins', (select setting from pg_settings where name = 'output_plugin_libraries'),
        'slot', {% if slot %}(
            select jsonb_build_object(
                'plugin', plugin, 'type', slot_type, 'database', database, 'active', active, 'temporary', temporary,
                'wal_status', wal_status, 'safe_wal_size', safe_wal_size,
                'restart', (restart_lsn - '0/0')::bigint, 'confirmed', (confirmed_flush_lsn - '0/0')::bigint,
                'held', ({{ position }} - restart_lsn)::bigint
            )
            from pg_replication_slots
            where slot_name = {{ dbt_backfill.postgres_literal(slot) }}
        ){% else %}null::jsonb{% endif %},
        'found', (select count(*) from pg_class where oid in ({{ dbt_backfill.get_postgres_oids_query(table) }})),
        'columns', ({{ dbt_backfill._get_postgres_columns_query(table) }})
    ) || coalesce((
        select jsonb_build_object(
            'oid', c.oid::text,
            'file', c.relfilenode::text,
            'kind', c.relkind,
            'is_partition', c.relispartition,
            'has_children', exists (select 1 from pg_inherits where inhparent = c.oid),
            'persistence', c.relpersistence,
            'may_select', has_table_privilege(c.oid, 'select'),
            'row_security', row_security_active(c.oid),
            {#- An index over an expression or with a predicate is left out, because it does not make columns unique over all rows. #}
            'keys', (
                select coalesce(jsonb_agg(jsonb_build_object(
                    'columns', ({{ dbt_backfill._get_postgres_index_columns() }}),
                    'primary', i.indisprimary,
                    'deferrable', not i.indimmediate
                ) order by i.indisprimary desc, i.indexrelid), '[]')
                from pg_index as i
                where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null and not exists (
                    select 1
                    from unnest(i.indkey::smallint[]) with ordinality as k(number, place)
                    join pg_attribute as a on a.attrelid = c.oid and a.attnum = k.number
                    where k.place <= i.indnkeyatts and not a.attnotnull
                )
            ),
            'unique_indexes', (select count(*) from pg_index where indrelid = c.oid and indisunique),
            'identity', c.relreplident,
            {#- A deferrable primary key gives no columns, because wal2json omits updates and deletes of a table with such a key. #}
            'identity_columns', case c.relreplident
                when 'n' then null
                when 'f' then (
                    select jsonb_agg(attname order by attnum)
                    from pg_attribute
                    where attrelid = c.oid and attnum > 0 and not attisdropped
                )
                else (
                    select ({{ dbt_backfill._get_postgres_index_columns() }})
                    from pg_index as i
                    where i.indrelid = c.oid and case when c.relreplident = 'd' then i.indisprimary and i.indimmediate else i.indisreplident end
                )
            end
        )
        from pg_class as c
        where c.oid in ({{ dbt_backfill.get_postgres_oids_query(table) }})
        limit 1
    ), jsonb_build_object()))::text as value_1
{%- endmacro %}


{#- Return a query of the oids of the tables with the name `table`, which is not quoted. -#}
{% macro get_postgres_oids_query(table) -%}
    select named.oid
    from pg_class as named
    join pg_namespace on pg_namespace.oid = named.relnamespace
    where named.relkind in ('r', 'p', 'v', 'm', 'f') and nspname || '.' || relname = {{ dbt_backfill.postgres_literal(table) }}
{%- endmacro %}


{#- Return a query of the columns of the index `i` of the table `c`. -#}
{% macro _get_postgres_index_columns() -%}
    select jsonb_agg(a.attname order by k.place)
    from unnest(i.indkey::smallint[]) with ordinality as k(number, place)
    join pg_attribute as a on a.attrelid = c.oid and a.attnum = k.number
    where k.place <= i.indnkeyatts
{%- endmacro %}


{#-
    Return a query of an array with one entry per column: {
      'name', 'shown': its type as PostgreSQL shows it, with its length,
      'type', 'typtype', 'is_array': facts about the type, or about the base type of a domain,
      'is_domain', 'builtin': true if PostgreSQL itself defines the type,
      'precision', 'scale': of numeric; null for none,
      'not_null', 'identity', 'generated': as attidentity and attgenerated,
      'collation': null, or {'name', 'bytewise': true if the collation orders strings by their bytes. For the default collation, the database's
        collation decides},
      'toastable': true if an event may leave out the column's value,
      'number', 'type_id', 'typmod': as attnum, atttypid and atttypmod,
      'written': the last transaction that changed the column's entry in the catalog; VACUUM and ANALYZE do not change the entry,
      'labels': the labels of an enum, in the order of their creation; null for other types,
      'finite': true if a check constraint says that the value (for a float: its abs()) is less than infinity, which also excludes NaN
    }
-#}
{% macro _get_postgres_columns_query(table) -%}
    with recursive bases as (
        select a.attrelid, a.attnum, a.attname, a.atttypid, a.attnotnull, a.attidentity, a.attgenerated, a.attstorage, a.attcollation,
            a.atttypmod, a.xmin::text as written, format_type(a.atttypid, a.atttypmod) as shown, t.oid, t.typname, t.typtype, t.typbasetype, t.typtypmod, t.typcategory,
            t.typnamespace, a.atttypmod as typmod
        from pg_attribute as a
        join pg_type as t on t.oid = a.atttypid
        where a.attrelid in ({{ dbt_backfill.get_postgres_oids_query(table) }}) and a.attnum > 0 and not a.attisdropped
        union all
        select b.attrelid, b.attnum, b.attname, b.atttypid, b.attnotnull, b.attidentity, b.attgenerated, b.attstorage, b.attcollation,
            b.atttypmod, b.written, b.shown, t.oid, t.typname, t.typtype, t.typbasetype, t.typtypmod, t.typcategory,
            t.typnamespace, case when b.typtypmod <> -1 then b.typtypmod else b.typmod end
        from bases as b
        join pg_type as t on t.oid = b.typbasetype
        where b.typtype = 'd'
    )
    select coalesce(jsonb_agg(jsonb_build_object(
        'name', b.attname, 'shown', b.shown, 'type', b.typname, 'typtype', b.typtype, 'is_array', b.typcategory = 'A',
        'is_domain', b.oid <> b.atttypid, 'builtin', b.typnamespace = 'pg_catalog'::regnamespace,
        'precision', case when b.typname = 'numeric' and b.typmod >= 4 then ((b.typmod - 4) >> 16) & 65535 end,
        'scale', case when b.typname = 'numeric' and b.typmod >= 4 then (((b.typmod - 4) & 2047) # 1024) - 1024 end,
        'not_null', b.attnotnull, 'identity', b.attidentity, 'generated', b.attgenerated,
        {#- PostgreSQL 17's builtin provider `b` orders by code points, which is the order of the UTF-8 bytes. The columns that describe the
            database's collation do not exist in every version, so they are looked up by name. #}
        'collation', (
            select jsonb_build_object('name', o.collname, 'bytewise', case o.collprovider
                when 'b' then true
                when 'c' then o.collcollate in ('C', 'POSIX')
                when 'd' then (
                    select case coalesce(to_jsonb(d) ->> 'datlocprovider', 'c')
                        when 'b' then true when 'c' then d.datcollate in ('C', 'POSIX') else false end
                    from pg_database as d
                    where d.datname = current_database()
                )
                else false
            end)
            from pg_collation as o
            where o.oid = b.attcollation
        ),
        'toastable', b.attstorage <> 'p',
        'number', b.attnum, 'type_id', b.atttypid::text, 'typmod', b.atttypmod, 'written', b.written,
        'labels', (select jsonb_agg(enumlabel order by e.oid) from pg_enum as e where b.typtype = 'e' and e.enumtypid = b.oid),
        'finite', exists (
            select 1
            from pg_constraint as n
            where n.conrelid = b.attrelid and n.contype = 'c' and n.convalidated and n.conkey = array[b.attnum]
                and lower(pg_get_constraintdef(n.oid)) = lower(format(
                    case when b.typname in ('float4', 'float8') then 'CHECK ((abs(%s) < ''infinity''::%s))'
                        else 'CHECK ((%s < ''infinity''::%s))' end,
                    quote_ident(b.attname), format_type(b.oid, null)
                ))
        )
    ) order by b.attnum), '[]')
    from bases as b
    where b.typtype <> 'd'
{%- endmacro %}
