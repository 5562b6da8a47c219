{#-
    A select of what a query in PostgreSQL's own words returns, through Spark's JDBC catalog, with nothing to install in the
    database: Spark takes the columns from a relation that has some of type text, and the query from the option `dbtable`.
    It is sent once, when the select is executed, also as a scalar subquery. Conditions on it are Spark's own: it would push a cast
    to the database in its own words (`as long`), which ANSI mode lets it do.

    Arguments:
      catalog (string): the name of the JDBC catalog.
      query (string): names what it returns value_1, value_2 and so on, all of them text.
      columns (integer): how many that are, eight at most.
      first (string): a statement that the connection executes before, none without one.
-#}
{% macro get_postgres_query_sql(catalog, query, columns=1, first=none) -%}
    {%- set carriers = ['name', 'setting', 'unit', 'category', 'short_desc', 'extra_desc', 'min_val', 'max_val'][:columns] -%}
    {%- set values, carried = [], [] -%}
    {%- for carrier in carriers -%}
        {%- do values.append(carrier ~ ' as value_' ~ loop.index) -%}
        {%- do carried.append('value_' ~ loop.index ~ ' as ' ~ carrier) -%}
    {%- endfor -%}
    {%- set table = '(select ' ~ carried | join(', ') ~ ' from (' ~ query ~ ') as answer) as answer' -%}
    select {{ values | join(', ') }}
    from {{ dbt_backfill.identifier(catalog) }}.pg_catalog.pg_settings with (
        'dbtable' = {{ dbt_backfill.string_literal(table) }}, 'pushDownPredicate' = 'false'
        {%- if first %}, 'sessionInitStatement' = {{ dbt_backfill.string_literal(first) }}{% endif %}
    )
{%- endmacro %}
