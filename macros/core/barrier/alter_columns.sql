{#-
    Let the MV have the columns that a plan fills and not those that it drops. No commit of rows: what is on its way and was
    read before it conflicts on Delta; on Iceberg a column that it does not know stays null, and one that is gone is not read.

    An ALTER is a statement of its own, right behind its fence. It commits only what nothing else has altered since it began.
-#}
{% macro run_alterations(backfill, plan) %}
    {%- set fence = dbt_backfill.get_fence(backfill, plan) -%}
    {%- set step, alterations = 'alter the columns in the barrier ' ~ plan.epoch, dbt_backfill.get_alterations(backfill.mv, plan) -%}
    {%- if alterations -%}
        {%- do dbt_backfill.run_table(step, dbt_backfill.get_alter_script(alterations, fence, yields=true)) -%}
        {#- Sent once more, and by itself, an ALTER that failed says why. -#}
        {%- set failed = dbt_backfill.get_alterations(backfill.mv, plan) -%}
        {%- if failed -%} {%- do dbt_backfill.run_table(step, dbt_backfill.get_alter_script(failed, fence, yields=false)) -%} {%- endif -%}
    {%- endif -%}
{% endmacro %}


{#- The statements that are still needed for that, as a list. -#}
{% macro get_alterations(mv, plan) %}
    {%- set missing, alterations, table = [], [], 'alter table ' ~ mv.render() ~ ' ' -%}
    {%- set fills, drops = plan.get('fills') or [], plan.get('drops') or [] -%}
    {%- if not fills and not drops -%} {{ return([]) }} {%- endif -%}
    {%- set types = dbt_backfill.get_column_types(mv) -%}
    {%- for name in drops if name | lower in types -%}
        {%- do alterations.append(table ~ 'drop column ' ~ dbt_backfill.identifier(name)) -%}
    {%- endfor -%}
    {%- for column in fills -%}
        {%- if column.name | lower not in types -%}
            {%- do missing.append(column) -%}
        {%- elif column.get('was') and types[column.name | lower] == column.was -%}
            {%- do alterations.append(table ~ 'alter column ' ~ dbt_backfill.identifier(column.name) ~ ' type ' ~ column.type) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(alterations + (dbt_backfill._get_additions(mv, missing) if missing else [])) }}
{% endmacro %}


{#- `columns`: that the MV has not. -#}
{% macro _get_additions(mv, columns) %}
    {%- set features = dbt_backfill.get_needed_features([], columns | map(attribute='type') | list)
        if dbt_backfill.get_file_format() == 'delta' else {} -%}
    {%- set add = 'alter table ' ~ mv.render() ~ ' add columns (' ~ dbt_backfill.column_definitions(columns) ~ ')' -%}
    {{ return(([dbt_backfill.get_set_properties_sql(mv, features)] if features else []) + [add]) }}
{% endmacro %}


{#-
    A script of them, unless it is fenced. With `yields` one that fails is passed over: sent again, or by two runs at once, it
    finds what it was to do done.
-#}
{% macro get_alter_script(alterations, fence, yields) -%}
    begin
        declare stands boolean;
        {%- for alteration in alterations %}
        set stands = (select {{ fence }});
        {%- if yields %}
        begin
            declare exit handler for sqlexception begin end;
            {{ alteration }};
        end;
        {%- else %}
        {{ alteration }};
        {%- endif %}
        {%- endfor %}
    end
{%- endmacro %}
