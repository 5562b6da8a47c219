{#- Return what an operation knows of an MV without asking Spark: its relations, 'name', 'options' and 'location_root'. -#}
{% macro get_operated(node) %}
    {{ return(dict(
        dbt_backfill.get_relations(dbt_backfill.get_node_relation(node)),
        name=dbt_backfill.get_model_name(node), options={'file_format': dbt_backfill.get_option_of(node, 'file_format') or 'delta'},
        location_root=node.config.get('location_root'), upstream=none, feed=none,
    )) }}
{% endmacro %}


{#-
    Return the result of get_operated with 'state', see read_state, and 'partitions', see get_backfill. Refuse if the MV or its state does not exist.
-#}
{% macro observe_operated(node) %}
    {%- set operated = dbt_backfill.get_operated(node) -%}
    {%- set existing = dbt_backfill.get_existing_relations(operated) -%}
    {%- if existing.mv is none and existing.progress is none -%}
        {%- do dbt_backfill.refuse(
            operated.mv.render() ~ ' does not exist yet', 'Run the model first: dbt run --select ' ~ operated.name, mv=operated.name,
            id='mv-not-built') -%}
    {%- elif existing.mv is none -%}
        {%- do dbt_backfill.refuse_missing_mv(operated) -%}
    {%- elif existing.progress is none -%}
        {%- do dbt_backfill.refuse_missing_state(operated, dbt_backfill.read_table_properties(operated.mv)) -%}
    {%- endif -%}
    {%- set observed = dbt_backfill.observe_existing(operated, existing) -%}
    {{ return(dict(operated, state=observed.state, partitions=observed.mv.partitions)) }}
{% endmacro %}


{#-
    Refuse arguments that an operation does not have, and values that are not allowed. `given`: the operation's arguments and their values; `unknown`:
    the names of other arguments that were given; `checks`: {argument: [true if its value is allowed, a description of the allowed values]}; `mv`: the
    model's name for messages, by default the name of the operation.
-#}
{% macro check_arguments(operation, given, unknown, checks={}, mv=none) %}
    {%- for argument in unknown -%}
        {%- do dbt_backfill.refuse(
            operation ~ " has no argument '" ~ argument ~ "'",
            'Correct or remove it. The ' ~ ('only argument is ' if given | length == 1 else 'arguments are ') ~ given | join(', '), mv=mv or operation,
            id='argument-unknown') -%}
    {%- endfor -%}
    {%- for argument, check in checks.items() if not check[0] -%}
        {%- do dbt_backfill.refuse_option(argument, given[argument], check[1], mv or operation) -%}
    {%- endfor -%}
{% endmacro %}
