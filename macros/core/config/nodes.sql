{#- Return the backfilled_mv that a user has named, as `name`, `package.name`, `name.v2` or `package.name.v2`. Refuse any other name. -#}
{% macro find_backfilled_mv(name, operation) %}
    {%- if not name or name is not string -%}
        {%- do dbt_backfill.refuse('the argument model is missing',
            "Name the model: --args '{model: my_mv}'", mv=operation, id='model-argument-missing') -%}
    {%- endif -%}
    {%- set node = dbt_backfill.find_model(name) -%}
    {%- if node.config.materialized != 'backfilled_mv' -%}
        {%- do dbt_backfill.refuse("its materialization is '" ~ node.config.materialized ~ "', so it is not a backfilled_mv",
            "Name a model with materialized='backfilled_mv'", mv=name, id='not-a-backfilled-mv') -%}
    {%- endif -%}
    {{ return(node) }}
{% endmacro %}


{#- Return the node of a model of any materialization. If there is no such model, refuse the name with the hint `change`. -#}
{% macro find_model(name, change='Name an enabled model of this project or of one of its packages') %}
    {%- set found = [] -%}
    {%- for node in graph.nodes.values() if node.resource_type == 'model'
            and name in [node.name, node.package_name ~ '.' ~ node.name, dbt_backfill.get_model_name(node), node.unique_id[6:]] -%}
        {%- do found.append(node) -%}
    {%- endfor -%}
    {%- do dbt_backfill.refuse_first([
        {'when': not found, 'id': 'model-not-found', 'fact': 'there is no model of this name', 'change': change},
        {'when': found | length > 1, 'id': 'model-name-ambiguous', 'fact': 'there are ' ~ found | length ~ ' models of this name',
         'change': 'Name one of ' ~ found | map(attribute='unique_id') | map('replace', 'model.', '', 1) | join(', ')},
    ], mv=name) -%}
    {{ return(found[0]) }}
{% endmacro %}


{#- Return all enabled backfilled_mvs of the project and its packages. -#}
{% macro find_backfilled_mvs() %}
    {%- set models = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model') -%}
    {{ return(models | selectattr('config.materialized', 'equalto', 'backfilled_mv') | list) }}
{% endmacro %}


{#- Return the ids of the models, seeds, snapshots and sources that a node reads. A model that is materialized in one of the ways `through`
    (ephemeral, view) is replaced by those that it reads itself. -#}
{% macro find_read_nodes(node, through) %}
    {%- set ids = [] -%}
    {%- for id in node.depends_on.nodes if not id.startswith(('macro.', 'operation.', 'function.')) -%}
        {%- set read = graph.nodes.get(id) -%}
        {%- do ids.extend(dbt_backfill.find_read_nodes(read, through) if read and read.get('config', {}).get('materialized') in through else [id]) -%}
    {%- endfor -%}
    {{ return(ids | unique | list) }}
{% endmacro %}


{#- True if a backfilled_mv of the project reads this node, or reads it through views and ephemeral models. -#}
{% macro has_follower(unique_id) %}
    {%- for node in dbt_backfill.find_backfilled_mvs() -%}
        {%- for id in node.depends_on.nodes -%}
            {%- set kind = graph.nodes.get(id, {}).get('config', {}).get('materialized') -%}
            {%- set reads_through = kind in ['ephemeral', 'view'] -%}
            {%- if id == unique_id or reads_through and unique_id in dbt_backfill.find_read_nodes(graph.nodes[id], ['ephemeral', 'view']) -%}
                {{ return(true) }}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}


{#- Return the node of the project that makes a table; none if there is no such node. -#}
{% macro find_maker(relation, types=['model', 'seed', 'snapshot']) %}
    {%- for node in graph.nodes.values() if node.resource_type in types and node.config.materialized != 'ephemeral'
            and (node.get('alias') or node.name) | lower == relation.identifier | lower
            and dbt_backfill.get_table_key(dbt_backfill.get_node_relation(node)) == dbt_backfill.get_table_key(relation) -%}
        {{ return(node) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- Return the relation of a node or source of the graph, quoted if its definition says so. dbt-spark fails if a relation has a database. -#}
{% macro get_node_relation(node) %}
    {%- set relation = api.Relation.create(
        node.get('database') if adapter.type() == 'spark_backfill' else none, node.schema, node.get('identifier') or node.get('alias') or node.name
    ) -%}
    {%- set quoting = node.get('quoting') or {} -%}
    {%- if quoting.get('schema') -%} {%- set relation = relation.quote(schema=true) -%} {%- endif -%}
    {{ return(relation.quote(identifier=true) if quoting.get('identifier') else relation) }}
{% endmacro %}


{#- Return the database of a node: its option `database`, a catalog of Spark. dbt calls this macro as docs/profiles.md#other-catalogs says. -#}
{% macro spark_backfill__generate_database_name(custom_database_name=none, node=none) %}
    {{ return(custom_database_name) }}
{% endmacro %}


{#- Return one option, see read_option, of a model that is not running. -#}
{% macro get_option_of(node, name) %}
    {%- set value = node.config.get(name) -%}
    {{ return(value if value is not none else (node.config.get('meta') or {}).get(name)) }}
{% endmacro %}


{#- Return the name of a table in lower case, for comparisons: Spark does not distinguish upper and lower case. -#}
{% macro get_table_key(relation) %}
    {{ return((relation.schema ~ '.' ~ relation.identifier) | lower) }}
{% endmacro %}


{#- Return the name of a model in dbt's output and in --select: `orders`, or `orders.v2` if the model has versions. -#}
{% macro get_model_name(node) %}
    {%- set version = node.version if node.version is defined else none -%}
    {{ return(node.name ~ ('' if version is none else '.v' ~ version)) }}
{% endmacro %}


{#- Return the name of an MV's model. This macro also works outside of a run of the model. -#}
{% macro get_name_of(backfill) %}
    {{ return(backfill.get('name') or dbt_backfill.get_model_name(model)) }}
{% endmacro %}


{#- Return the command of a run-operation as a user types it; `arguments` is YAML. -#}
{% macro get_operation_text(operation, arguments) %}
    {{ return('dbt run-operation ' ~ operation ~ " --args '" ~ arguments ~ "'") }}
{% endmacro %}


{#-
    Stop the model with the message `backfilled_mv <model>: <fact>. <change>.` The last line of the message names the row of docs/messages.md that
    explains it. Every refusal of this package calls this macro, so that users can rely on the form of the message.

    Arguments:
      fact (string): what is wrong, without the final full stop.
      change (string): what the user can do, without the final full stop.
      mv (string): the name of the model, if another model or an operation is running.
      id (string): the anchor of the message in docs/messages.md.
-#}
{% macro refuse(fact, change, mv=none, id=none) %}
    {%- set see = '\nSee ' ~ var('backfill_docs_url', 'docs/messages.md') ~ '#' ~ id -%}
    {%- set message = 'backfilled_mv ' ~ (mv or dbt_backfill.get_model_name(model)) ~ ': ' ~ fact ~ '. ' ~ change ~ '.' ~ see -%}
    {#- dbt adds a line for each calling macro to a compiler error, but not to an error of the adapter. -#}
    {%- if adapter.type() == 'spark_backfill' -%} {%- do adapter.refuse(message) -%} {%- endif -%}
    {%- do exceptions.raise_compiler_error(message) -%}
{% endmacro %}


{#- Refuse with the message of the first check whose 'when' is true. A check is {'when', 'id', 'fact', 'change'}, see refuse. -#}
{% macro refuse_first(checks, mv=none) %}
    {%- for check in checks if check.when -%} {%- do dbt_backfill.refuse(check.fact, check.change, mv=mv, id=check.id) -%} {%- endfor -%}
{% endmacro %}


{% macro refuse_option(name, value, expected, mv=none) %}
    {%- do dbt_backfill.refuse(name ~ ' is ' ~ tojson(value, value | string), 'Set it to ' ~ expected, mv=mv, id='option-value') -%}
{% endmacro %}
