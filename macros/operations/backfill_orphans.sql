{#-
    List what models that are gone, or are no backfilled_mv any more, have left: the tables of ours that no enabled
    backfilled_mv of the project makes, one line per MV, with the command that drops them. It drops nothing.

    They are known by a state, a history, controls or a live view; an MV without any is not found.

    Usage:
      dbt run-operation backfill_orphans
      dbt run-operation backfill_orphans --args '{schema: my_schema}'

    Arguments:
      schema (string): the schema to search; the target's and those of all models of the project by default.
-#}
{% macro backfill_orphans(schema=none) %}
    {%- do dbt_backfill.check_argument_names('backfill_orphans', kwargs, ['schema'], 'backfill_orphans') -%}
    {%- set catalog = dbt_backfill.read_current_catalog() -%}
    {%- set schemas = dbt_backfill.find_searched_schemas(schema, catalog) -%}
    {%- set owners, lines = dbt_backfill.get_owners(catalog), [] -%}
    {%- for searched in schemas -%}
        {%- set tables = dbt_backfill.list_tables(searched) -%}
        {%- for relations in dbt_backfill.get_left_relations(searched, tables, owners, catalog) -%}
            {%- set existing = {} -%}
            {%- for table in dbt_backfill.table_words() -%}
                {%- set exists = relations[table].identifier in tables -%}
                {%- do existing.update({table: relations[table] if exists else none}) -%}
            {%- endfor -%}
            {%- set remains = dbt_backfill.find_remains(relations, existing, owners) -%}
            {%- if remains.ours | reject('equalto', 'mv') | list -%}
                {%- do lines.append(dbt_backfill.get_orphan_line(relations, remains)) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- do log(
        (dbt_backfill.get_count_text(lines | length, 'orphan') if lines else 'no orphans') ~ ' in ' ~ schemas | join(', ')
            ~ (', which no model of this project and target makes' if lines else ''), info=true
    ) -%}
    {%- for line in lines -%} {%- do log('  ' ~ line, info=true) -%} {%- endfor -%}
{% endmacro %}


{#- Such as `nyc.mv: MV, state and history; dbt run-operation drop_backfill --args '{mv: nyc.mv}'`. -#}
{% macro get_orphan_line(relations, remains) %}
    {%- set name = relations.mv.render() -%}
    {{ return(
        name ~ ': ' ~ dbt_backfill.get_remains_text(remains) ~ '; ' ~ dbt_backfill.get_operation_text(
            'drop_backfill', '{mv: ' ~ name ~ (', keep_mv: true' if 'mv' in remains.foreign else '') ~ '}')
    ) }}
{% endmacro %}


{#-
    The tables of MVs, as get_relations returns them, that stand beside a table with the name of a state, a history, controls or a live
    view, and that no model makes. A source of the project is the MV of another project.
-#}
{% macro get_left_relations(schema, tables, owners, catalog) %}
    {%- set known = [] -%}
    {%- for source in graph.sources.values() -%}
        {%- do known.append(dbt_backfill.get_table_key(
            dbt_backfill.get_plain_relation(dbt_backfill.get_node_relation(source), catalog)
        )) -%}
    {%- endfor -%}
    {%- for key, owner in owners.items() if owner.config.materialized == 'backfilled_mv' -%}
        {%- do known.extend([key, key ~ '__next']) -%}
    {%- endfor -%}
    {%- set companion = '(?s)(.+)__(' ~ (dbt_backfill.companion_names() + ['live']) | join('|') ~ ')' -%}
    {%- set names, left = [], [] -%}
    {%- for table in tables -%}
        {%- set name = modules.re.fullmatch(companion, table) -%}
        {%- if name -%} {%- do names.append(name.group(1)) -%} {%- endif -%}
    {%- endfor -%}
    {%- for name in names | unique(case_sensitive=true) | sort -%}
        {%- set mv = api.Relation.create(schema=schema, identifier=name) -%}
        {%- if dbt_backfill.get_table_key(mv) not in known -%}
            {%- do left.append(dbt_backfill.get_relations(
                mv if modules.re.fullmatch('\\w+', name) else mv.quote(identifier=true)
            )) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(left) }}
{% endmacro %}


{#- The names of the tables and views of a schema. -#}
{% macro list_tables(schema) %}
    {%- set tables = [] -%}
    {#- A third column that is true marks a temporary view. -#}
    {%- for row in dbt_backfill.run_table('list the tables of ' ~ schema, 'show tables in ' ~ schema) if not row[2] -%}
        {%- do tables.append(row[1] | string) -%}
    {%- endfor -%}
    {{ return(tables) }}
{% endmacro %}


{#- The schemas to search that exist; `schema` is what the user named, none for those of the project. -#}
{% macro find_searched_schemas(schema, catalog) %}
    {%- set asked, found = [], [] -%}
    {%- if schema is none -%}
        {%- do asked.append(dbt_backfill.get_plain_schema(target.schema, catalog)) -%}
        {%- for node in graph.nodes.values() if node.resource_type == 'model' -%}
            {%- set name = dbt_backfill.get_plain_schema(node.schema, catalog) -%}
            {%- if name not in asked -%} {%- do asked.append(name) -%} {%- endif -%}
        {%- endfor -%}
    {%- elif schema is not string or not schema -%}
        {%- do dbt_backfill.refuse_argument('backfill_orphans', 'schema', schema, 'the name of a schema') -%}
    {%- else -%}
        {%- do asked.append(dbt_backfill.get_plain_schema(schema, catalog)) -%}
    {%- endif -%}
    {%- set there = dbt_backfill.read_schemas() -%}
    {#- That of another catalog, which is named by two parts, is not listed. -#}
    {%- for name in asked if '.' in name or name | replace('`', '') | lower in there -%} {%- do found.append(name) -%} {%- endfor -%}
    {%- if not found -%}
        {%- do dbt_backfill.refuse(
            'there is no schema ' ~ asked | join(', '), 'Name one that exists, or run a model first', mv='backfill_orphans'
        ) -%}
    {%- endif -%}
    {{ return(found) }}
{% endmacro %}


{#-
    Which of the tables of an MV there are, and whose they are: {
      'ours': the names of those of ours, as get_relations has them; of the live view it counts only whether it is ours,
      'foreign': such a name -> why the table is none of ours, as the end of a sentence,
      'state': as read_state returned it; none where there is no state that this version reads
    }

    Of a state of another format nothing is read, but it is ours too.

    Arguments:
      existing (dict): as get_existing_relations returned it.
      owners (dict): see get_owners.
-#}
{% macro find_remains(relations, existing, owners) %}
    {%- set ours, foreign, properties = [], {}, {} -%}
    {%- for table in dbt_backfill.table_words() if table != 'live' and existing.get(table) is not none -%}
        {%- set owner = owners.get(dbt_backfill.get_table_key(relations[table])) -%}
        {%- if owner is not none and (table != 'mv' or owner.config.materialized != 'backfilled_mv') -%}
            {%- do foreign.update({table: 'is made by the ' ~ owner.resource_type ~ ' ' ~ dbt_backfill.get_model_name(owner)}) -%}
        {%- else -%}
            {%- set found = dbt_backfill.read_listed_properties(existing[table], relations[table]) -%}
            {%- do properties.update({table: found}) -%}
            {#- A history, and controls, outlive their MV, and have no id. -#}
            {%- if 'dbt_backfill.format' in found and ('dbt_backfill.id' in found) == (table in ['mv', 'progress']) -%}
                {%- do ours.append(table) -%}
            {%- else -%}
                {%- do foreign.update({table: 'was not made by this materialization'}) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set state = none -%}
    {%- if 'progress' in ours and properties.progress['dbt_backfill.format'] == dbt_backfill.state_format() -%}
        {%- set state = dbt_backfill.read_state(relations) -%}
    {%- endif -%}
    {%- if 'mv' in ours and not owners.get(dbt_backfill.get_table_key(relations.mv))
            and dbt_backfill.is_replaced(relations, properties.mv, state) -%}
        {%- do ours.remove('mv') -%}
        {%- do foreign.update({'mv': 'was replaced or rolled back by something else since the barrier ' ~ state.epoch}) -%}
    {%- endif -%}
    {%- if existing.get('live') is not none and dbt_backfill.read_live_view(relations.live) is not none -%}
        {%- do ours.append('live') -%}
    {%- endif -%}
    {{ return({'ours': ours, 'foreign': foreign, 'state': state}) }}
{% endmacro %}


{#-
    Whether something else has replaced an Iceberg MV, which then still has our properties: dbt's `table` materialization,
    say, of a model that is gone by now. Where there is nothing to lose, it is ours, also where a reset has begun.
-#}
{% macro is_replaced(relations, properties, state) %}
    {%- if not (state or {}).get('committed') -%} {{ return(false) }} {%- endif -%}
    {%- set departure = dbt_backfill.find_departure(
        relations, properties.get('current-snapshot-id'), properties.get('dbt_backfill.reset', ''), dict(state, planned=none)
    ) -%}
    {{ return(departure is not none and departure.rows > 0) }}
{% endmacro %}


{#- What the tables are called: the keys are those of get_relations. -#}
{% macro table_words() %}
    {{ return({'mv': 'MV', 'progress': 'state', 'barriers': 'history', 'controls': 'controls', 'staged': 'staged rows', 'replica': 'replica', 'live': 'live view'}) }}
{% endmacro %}


{#- `MV, state and history`, as far as they are ours. -#}
{% macro get_remains_text(remains) %}
    {%- set words = [] -%}
    {%- for table, word in dbt_backfill.table_words().items() if table in remains.ours -%} {%- do words.append(word) -%} {%- endfor -%}
    {{ return((words[:-1] | join(', ') ~ ' and ' if words | length > 1 else '') ~ words[-1]) }}
{% endmacro %}


{#- The enabled nodes of the project by the tables that they make, see get_table_key. `catalog` is the session's current one. -#}
{% macro get_owners(catalog) %}
    {%- set owners = {} -%}
    {%- for node in graph.nodes.values() if node.resource_type in ['model', 'seed', 'snapshot']
            and node.config.materialized != 'ephemeral' -%}
        {%- set relation = dbt_backfill.get_plain_relation(dbt_backfill.get_node_relation(node), catalog) -%}
        {%- do owners.update({dbt_backfill.get_table_key(relation): node}) -%}
    {%- endfor -%}
    {{ return(owners) }}
{% endmacro %}


{% macro read_current_catalog() %}
    {{ return(dbt_backfill.run_table('ask for the catalog', 'select current_catalog()')[0][0]) }}
{% endmacro %}


{#- A relation with its schema as one table has it, however it was spelled: see get_plain_schema. -#}
{% macro get_plain_relation(relation, catalog) %}
    {{ return(relation.incorporate(path={'schema': dbt_backfill.get_plain_schema(relation.schema, catalog)})) }}
{% endmacro %}


{#- A schema without spaces, quotes that it does not need, and the name of the session's current catalog. -#}
{% macro get_plain_schema(schema, catalog) %}
    {%- set parts = [] -%}
    {%- for part in modules.re.findall('\\s*(`(?:[^`]|``)*`|[^`.]+)', schema) -%}
        {%- set part = part | trim -%}
        {%- do parts.append(part[1:-1] if modules.re.fullmatch('`\\w+`', part) else part) -%}
    {%- endfor -%}
    {{ return((parts[1:] if parts | length > 1 and parts[0] | lower == catalog | lower else parts) | join('.')) }}
{% endmacro %}
