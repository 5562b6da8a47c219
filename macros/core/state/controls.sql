{#-
    What people have set for an MV while it is backfilled, `<mv>__controls`: one row each time, and the newest one of a control applies. The
    table is made when one is first set, and a barrier only reads it: to set one is an INSERT, which conflicts with nothing, so that a run
    that commits just then goes on.

    `control` is `pause`, with the value `true` or `false`, or `rate_limit`, with a number of rows or `default`. Rows of another
    `backfill_id` are of an earlier MV.
-#}


{#- Return a select of the newest row of each control of an MV, as JSON: {'pause', 'rate_limit'}, each {'value', 'set_by', 'set_at'} or absent. -#}
{% macro get_controls_sql(relations, backfill_id) -%}
    {%- set newest = "max_by(struct(value, set_by, date_format(set_at, 'yyyy-MM-dd HH:mm') as set_at), set_at)" -%}
    select to_json(named_struct(
        'pause', {{ newest }} filter (where control = 'pause'),
        'rate_limit', {{ newest }} filter (where control = 'rate_limit')
    ))
    from {{ relations.controls.render() }}
    where backfill_id = {{ dbt_backfill.string_literal(backfill_id) }}
{%- endmacro %}


{#- Declare the variable of get_controls_statement, among those that a script declares first. -#}
{% macro declare_controls() -%}
    declare controls string;
{%- endmacro %}


{#-
    Return a statement of a script that reads them into its variable `controls`, null where there is no such table. The table may appear at
    any time, also during a run, so each barrier looks for it. Spark finds before any job that it is missing, or that it has other columns,
    which check_controls_are_ours refuses.
-#}
{% macro get_controls_statement(relations, backfill_id) -%}
    begin
        declare exit handler for sqlstate '42P01' begin end;
        declare exit handler for sqlstate '42703' begin set controls = '{"foreign": true}'; end;
        set controls = ({{ dbt_backfill.get_controls_sql(relations, backfill_id) }});
    end;
{%- endmacro %}


{#- True if there are controls of ours to be read, by the list of tables that dbt keeps. -#}
{% macro has_own_controls(relations) %}
    {%- set existing = dbt_backfill.load_table(relations.controls) -%}
    {{ return('dbt_backfill.format' in dbt_backfill.read_listed_properties(existing, relations.controls)) }}
{% endmacro %}


{#- Refuse a table of their name that is not ours, as what was read of it shows. -#}
{% macro check_controls_are_ours(relations, state) %}
    {%- if state.controls.get('foreign') -%} {%- do dbt_backfill.refuse_foreign_controls(relations) -%} {%- endif -%}
{% endmacro %}


{% macro refuse_foreign_controls(relations) %}
    {%- do dbt_backfill.refuse(
        relations.controls.render() ~ ' exists, and has no controls of ours', 'Rename it, or give the model another alias',
        mv=relations.get('name')
    ) -%}
{% endmacro %}


{#-
    Return a script that sets a control, and returns what is set then. When, and by whom, are literals in it: sent twice, the second row
    says what the first one does.

    Arguments:
      setting (dict): {'control', 'value', 'by', 'at': microseconds since 1970}.
      location (string): the clause of the place where the table is made, empty for the catalog's own.
-#}
{% macro get_set_control_script(operated, backfill_id, setting, location='') -%}
    {%- set format, text = operated.options.file_format, dbt_backfill.string_literal -%}
    begin
        create table if not exists {{ operated.controls.render() }}
            (control string, value string, set_by string, set_at timestamp_ltz, backfill_id string)
        using {{ format }}
        {{ location }}
        tblproperties {{ dbt_backfill.property_list(dict(
            dbt_backfill.exact_table_properties(format), **{'dbt_backfill.format': dbt_backfill.state_format()}
        )) }};
        insert into {{ operated.controls.render() }}
        select
            {{ text(setting.control) }}, {{ text(setting.value) }}, {{ text(setting.by) }}, timestamp_micros({{ setting.at }}),
            {{ text(backfill_id) }};
        {{ dbt_backfill.get_controls_sql(operated, backfill_id) }};
    end
{%- endmacro %}
