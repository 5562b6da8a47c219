{#-
    Let the MV have the columns that a plan fills, empty, if it has them not. No commit of rows: what is on its way and was read
    before it conflicts on Delta, and on Iceberg writes them as nulls.
-#}
{% macro run_additions(backfill, plan) %}
    {%- if not plan.get('fills') -%} {{ return(none) }} {%- endif -%}
    {%- set present = dbt_backfill.get_table_columns(backfill.mv) | map(attribute='name') | map('lower') | list -%}
    {%- set missing = [] -%}
    {%- for column in plan.fills if column.name | lower not in present -%} {%- do missing.append(column) -%} {%- endfor -%}
    {%- if missing -%}
        {%- do dbt_backfill.run_table(
            'add the columns of the barrier ' ~ plan.epoch,
            dbt_backfill.get_add_columns_sql(backfill.mv, missing, dbt_backfill.get_fence(backfill, plan))
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    A script that adds columns, unless it is fenced. Sent again, or by two runs at once, it finds them there: that is no error,
    and the query at its end fails if they are not.
-#}
{% macro get_add_columns_sql(mv, columns, fence) -%}
    {%- set features = dbt_backfill._delta_features(columns | map(attribute='type') | list)
        if dbt_backfill.get_file_format() == 'delta' else {} -%}
    {%- set definitions = [] -%}
    {%- for column in columns -%} {%- do definitions.append(dbt_backfill.identifier(column.name) ~ ' ' ~ column.type) -%} {%- endfor -%}
    begin
        declare stands boolean;
        set stands = (select {{ fence }});
        begin
            declare exit handler for sqlexception begin end;
            {%- for name, value in features.items() %}
            alter table {{ mv.render() }} set tblproperties ({{ dbt_backfill.string_literal(name) }} = {{ dbt_backfill.string_literal(value) }});
            {%- endfor %}
            alter table {{ mv.render() }} add columns ({{ definitions | join(', ') }});
        end;
        select {{ dbt_backfill.identifiers(columns | map(attribute='name')) }} from {{ mv.render() }} where false;
    end
{%- endmacro %}
