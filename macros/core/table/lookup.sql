{#-
    Return a table; none if the table does not exist. As a rule this macro looks in dbt's cache, which has only the schemas of the session's own
    catalog. A table of another catalog has a name of three parts, and the macro asks Spark for it. The macro also asks Spark for a table that is only
    read (`reads`) if no model is built in the table's schema. Otherwise dbt would list that schema for its cache, and one broken table in the schema
    would end the run.
-#}
{% macro load_table(relation, reads=false) %}
    {%- set built = graph.nodes.values() | map(attribute='schema', default='') | map('lower') | list if reads else [] -%}
    {%- if dbt_backfill.get_catalog(relation) is not none or reads and relation.schema | lower not in built -%}
        {{ return(dbt_backfill.find_table(relation)) }}
    {%- endif -%}
    {{ return(adapter.get_relation(none, relation.schema, relation.identifier)) }}
{% endmacro %}


{#- True if dbt's cache lists a table; this sends no statement. The cache lists no table of another catalog. -#}
{% macro is_listed(relation) %}
    {{ return(dbt_backfill.get_catalog(relation) is none and dbt_backfill.load_table(relation) is not none) }}
{% endmacro %}


{#- Look a table up in Spark, and not in dbt's cache. Return none if the table does not exist. -#}
{% macro find_table(relation) %}
    {%- set information = dbt_backfill.read_information(relation) -%}
    {%- if information is none -%} {{ return(none) }} {%- endif -%}
    {{ return(relation.incorporate(type='view' if 'Type: VIEW' in information else 'table', information=information)) }}
{% endmacro %}


{#- Return Spark's description of a table or view: lines such as `Type: VIEW`; none if there is no such table. -#}
{% macro read_information(relation) %}
    {%- set sql = 'show table extended in ' ~ relation.include(identifier=false).render() ~ ' like '
        ~ dbt_backfill.string_literal(relation.identifier) -%}
    {%- for row in dbt_backfill.run_table('find ' ~ relation.identifier, sql) if row[1] | lower == relation.identifier | lower -%}
        {{ return(row[3]) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- Return the schemas of the session's own catalog, in lower case and without quotes. -#}
{% macro read_schemas() %}
    {{ return(dbt_backfill.run_table('list the schemas', 'show schemas') | map(attribute=0) | map('replace', '`', '') | map('lower') | list) }}
{% endmacro %}


{#- Return the relation that a text names; none if the text is not a rendered relation with a schema. -#}
{% macro parse_relation(text) %}
    {%- set parts = modules.re.search('(?s)^(.+?)\\.(?:`(.*)`|([^`.]+))$', text) -%}
    {%- if not parts -%} {{ return(none) }} {%- endif -%}
    {%- set schema, quoted, plain = parts.groups() -%}
    {#- dbt's cache has schemas without quotes. -#}
    {%- set quoted_schema = modules.re.search('^`([^`]+)`$', schema) -%}
    {%- set relation = api.Relation.create(schema=quoted_schema.group(1) if quoted_schema else schema, identifier=quoted or plain) -%}
    {%- if quoted_schema -%} {%- set relation = relation.quote(schema=true) -%} {%- endif -%}
    {{ return(relation.quote(identifier=true) if quoted else relation) }}
{% endmacro %}


{#- Return the catalog of a relation whose name has three parts; none for the session's own catalog. -#}
{% macro get_catalog(relation) %}
    {{ return(relation.schema.split('.')[0] if '.' in relation.schema else none) }}
{% endmacro %}


{#- Return the table properties of a relation. Spark shows `*********(redacted)` for a property if its name or value looks like a secret or a URL. An
    example is a constraint of a column `url`. For a Delta table, DESCRIBE DETAIL shows all properties, unless `with_hidden` is false. -#}
{% macro read_table_properties(relation, with_hidden=true) %}
    {%- set properties = {} -%}
    {%- for row in dbt_backfill.run_table('describe ' ~ relation.identifier, 'show tblproperties ' ~ relation.render()) -%}
        {%- do properties.update({row[0]: row[1]}) -%}
    {%- endfor -%}
    {%- if with_hidden and 'delta.minReaderVersion' in properties and dbt_backfill.is_redacted(properties.values() | join(' ')) -%}
        {%- do properties.update(dbt_backfill.read_delta_detail(relation).properties) -%}
    {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#- Return the table properties of a relation; {} if the result of its lookup, `existing`, is a view or none. -#}
{% macro read_listed_properties(existing, relation) %}
    {{ return({} if existing is none or existing.is_view else dbt_backfill.read_table_properties(relation)) }}
{% endmacro %}


{#- True if `value` has a part that Spark does not show. `value` is one value of a property, or several. -#}
{% macro is_redacted(value) %}
    {{ return('*(redacted)' in (value or '')) }}
{% endmacro %}


{#- Return the detail of a Delta table: {'id', 'properties', 'partitions': the names of the columns by which it is partitioned, as text}. With
    `method: session`, dbt returns JSON. The text of a Thrift server has no spaces and no escaped quotes, so another statement reads the properties.
    If Spark hides a property there, its value is the text between its name and the name of the next property. -#}
{% macro read_delta_detail(relation) %}
    {%- set row = dbt_backfill.run_table('describe ' ~ relation.identifier, 'describe detail ' ~ relation.render())[0] -%}
    {%- set text, properties = row['properties'], fromjson(row['properties']) if row['properties'] is string else row['properties'] -%}
    {%- if text is string and tojson(properties) != text -%}
        {%- set properties = dbt_backfill.read_table_properties(relation, with_hidden=false) -%}
        {%- for name, value in properties.items() if dbt_backfill.is_redacted(value) -%}
            {%- set shown = [text.split('"' ~ name ~ '":"')[1:] | join] -%}
            {%- for other in properties -%} {%- do shown.append(shown[-1].split('","' ~ other ~ '":"')[0]) -%} {%- endfor -%}
            {%- do properties.update({name: shown[-1].removesuffix('"}')}) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return({'id': row['id'], 'properties': properties or {}, 'partitions': row.get('partitionColumns') | string}) }}
{% endmacro %}


{#- Return the newest entries of a Delta table's log, newest first: a list of {'version', 'committed_at', 'operation', 'parameters'}. Each time must
    be the same text over every connection. Only some connections return trailing zeros, so this macro removes them. `whose`: the table, for the
    comment of the statement. -#}
{% macro read_delta_log(relation, limit, whose='the upstream') %}
    {%- set log, sql = [], 'describe history ' ~ relation.render() ~ ' limit ' ~ limit -%}
    {%- for row in dbt_backfill.run_table('read the log of ' ~ whose, sql) -%}
        {%- set time = row['timestamp'] | string | replace('T', ' ') -%}
        {%- do log.append({
            'version': row['version'] | int, 'committed_at': time.rstrip('0').rstrip('.') if '.' in time else time,
            'operation': row['operation'] | upper, 'parameters': row['operationParameters'] or '',
        }) -%}
    {%- endfor -%}
    {{ return(log) }}
{% endmacro %}


{#- Return the statements of a script that set the script's variable `__bf_moved`: to true if a Delta table has the version `version`, else to false.
    The variable is also true if the log no longer lists the version before `version`, because then later commits cannot be excluded; `known=false`
    skips this check. `version`: a SQL expression of a number. -#}
{% macro get_probe_statements(mv, version, known=true) -%}
    {%- set sql = 'execute immediate ' ~ dbt_backfill.string_literal('select 1 from ' ~ mv.render() ~ ' version as of ') ~ ' || (' -%}
    {%- set end = ") || ' where false';" -%}
    set __bf_moved = {{ 'true' if known else 'false' }};
    begin
        declare exit handler for sqlstate '22003' begin end;
        {#- Delta reads a version beyond the retention of the table's files only if it is the newest version. #}
        declare exit handler for sqlstate '0AKDC' begin set __bf_moved = true; end;
        {%- if known %}
        {{ sql ~ version ~ ' - 1' ~ end }}
        set __bf_moved = false;
        {%- endif %}
        {{ sql ~ version ~ end }}
        set __bf_moved = true;
    end;
{%- endmacro %}


{#- Return the type that a column of `type` has in a table of this format: Iceberg has no integers of less than 32 bits. -#}
{% macro get_kept_type(type, file_format) %}
    {{ return('int' if file_format == 'iceberg' and type in ['tinyint', 'smallint'] else type) }}
{% endmacro %}


{#- Return the WHEN MATCHED clause of a MERGE that only inserts rows: empty on Delta, because Delta's MERGE is fastest without the clause. Iceberg
    checks a MERGE for conflicts only if the MERGE has this clause. In a test without the clause, two runs both appended their rows. -#}
{% macro get_iceberg_matched_clause(action, file_format=none) -%}
    {%- if (file_format or dbt_backfill.get_file_format()) == 'iceberg' %}when matched then {{ action }}{% endif -%}
{%- endmacro %}
