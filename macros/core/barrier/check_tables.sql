{% macro refuse_missing_mv(backfill) %}
    {%- do dbt_backfill.refuse(
        backfill.mv.render() ~ ' does not exist, but its state does (' ~ backfill.progress.render() ~ ')',
        'Restore the MV, or drop ' ~ backfill.progress.render() ~ ' to build it anew', mv=backfill.get('name')
    ) -%}
{% endmacro %}


{#- Refuse a table with these properties, without a state: not created by this package, a copy of an MV (dbt's `clone`, say), or an MV. -#}
{% macro refuse_missing_state(backfill, properties) %}
    {%- if 'dbt_backfill.id' not in properties -%} {%- do dbt_backfill.refuse_foreign_mv(backfill) -%} {%- endif -%}
    {%- set mv, name = backfill.mv.render(), dbt_backfill.get_name_of(backfill) -%}
    {%- set adopt = dbt_backfill.get_operation_text('adopt_table', '{model: ' ~ name ~ '}') -%}
    {#- One that clone_backfill has not finished has its own name already. -#}
    {%- set original = properties.get('dbt_backfill.clone') or dbt_backfill.find_original(backfill.mv, properties) -%}
    {%- if original -%}
        {%- set clone = dbt_backfill.get_operation_text('clone_backfill', '{model: ' ~ name ~ ', source: ' ~ original ~ ', replace: true}') -%}
        {%- do dbt_backfill.refuse(
            mv ~ ' is a clone of the MV ' ~ original ~ ', without its state',
            'To go on from there: ' ~ clone ~ '. To have its rows compared with the query: ' ~ adopt, mv=backfill.get('name')
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill.refuse(
        'its state is missing: ' ~ backfill.progress.render() ~ ' does not exist',
        'Restore it, or drop ' ~ mv ~ ' to build it anew, or have its rows compared with the query: ' ~ adopt, mv=backfill.get('name')
    ) -%}
{% endmacro %}


{#- Return the name of the MV that a table with these properties is a copy of; none if it is no copy, as far as they say. -#}
{% macro find_original(mv, properties) %}
    {%- set original = properties.get('dbt_backfill.mv') or mv.render() -%}
    {#- Spark does not show the name of a table in which it sees a secret, such as `password_resets`. -#}
    {%- if dbt_backfill.is_redacted(original) -%} {{ return(none) }} {%- endif -%}
    {%- set own, noted = (mv.render() | lower | replace('`', '')).split('.'), (original | lower | replace('`', '')).split('.') -%}
    {#- The session's own catalog may be named, or not. -#}
    {%- set known = [own | length, noted | length] | min -%}
    {{ return(none if own[-known:] == noted[-known:] else original) }}
{% endmacro %}


{#- Refuse tables whose state this version does not read. `properties`: of the MV, or of the progress table. -#}
{% macro check_state_format(backfill, properties) %}
    {%- set format, known, state = properties.get('dbt_backfill.format', '1'), dbt_backfill.state_format(), backfill.progress.render() -%}
    {%- if format != known -%}
        {%- do dbt_backfill.refuse(
            'its state ' ~ state ~ ' has the format ' ~ format ~ ', and this version of the package reads ' ~ known,
            'Use the version that made it, or drop ' ~ backfill.mv.render() ~ ', ' ~ state ~ ' and ' ~ backfill.barriers.render()
                ~ ' to build it anew', mv=backfill.get('name')
        ) -%}
    {%- endif -%}
{% endmacro %}


{#- Refuse a table with the state's name that is no state created by this package, or not of this format. -#}
{% macro check_progress_is_ours(backfill, existing) %}
    {%- set properties = dbt_backfill.read_listed_properties(existing, backfill.progress) -%}
    {%- if 'dbt_backfill.id' not in properties and 'dbt_backfill.format' not in properties -%}
        {%- do dbt_backfill.refuse(
            backfill.progress.render() ~ ' exists, and is no state of ours; it has the name that the state of '
                ~ backfill.mv.render() ~ ' would have',
            'Rename it, or give the model another alias', mv=backfill.get('name')
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill.check_state_format(backfill, properties) -%}
{% endmacro %}


{% macro refuse_foreign_mv(backfill) %}
    {%- set adopt = dbt_backfill.get_operation_text('adopt_table', '{model: ' ~ dbt_backfill.get_name_of(backfill) ~ '}') -%}
    {%- do dbt_backfill.refuse(
        backfill.mv.render() ~ ' exists, and was not made by this materialization',
        'To keep its rows: ' ~ adopt ~ '. To replace it: set replace_existing to true, and run the model once with --full-refresh. '
            ~ 'Or drop or rename it', mv=backfill.get('name')
    ) -%}
{% endmacro %}


{% macro get_format_of(properties) %}
    {{ return('iceberg' if properties.get('format', '').startswith('iceberg') else 'delta') }}
{% endmacro %}


{#-
    Refuse a table where the history, or the controls, of a new MV would be, unless it is one that an earlier MV has left and that the new
    MV can write to. If tables are looked up by a statement, the first barrier's commit looks at the controls.
-#}
{% macro check_leftovers_are_ours(backfill, existing) %}
    {%- if existing.barriers -%}
        {%- set properties = dbt_backfill.read_listed_properties(existing.barriers, backfill.barriers) -%}
        {%- if properties.get('dbt_backfill.format') != dbt_backfill.state_format()
                or dbt_backfill.get_format_of(properties) != backfill.options.file_format -%}
            {%- do dbt_backfill.refuse(
                backfill.barriers.render() ~ ' exists, and is no history that this version of the package writes to '
                    ~ backfill.options.file_format,
                'Drop or rename it; nothing but a history of barriers stands there', mv=backfill.get('name')
            ) -%}
        {%- endif -%}
    {%- endif -%}
    {%- set controls = none if dbt_backfill.get_catalog(backfill.controls) else dbt_backfill.load_table(backfill.controls) -%}
    {%- if controls is not none and not dbt_backfill.has_own_controls(backfill) -%}
        {%- do dbt_backfill.refuse_foreign_controls(backfill) -%}
    {%- endif -%}
{% endmacro %}


{#- Return the end of a sentence on what to drop. -#}
{% macro or_adopt_text(backfill) %}
    {%- set drop = dbt_backfill.get_operation_text('drop_backfill', '{model: ' ~ dbt_backfill.get_name_of(backfill) ~ ', keep_mv: true}') -%}
    {{ return('or only the state (' ~ drop ~ ') to adopt the table') }}
{% endmacro %}


{#- Refuse a copy of an MV (`original`: see find_original) beside a copy of its state: a barrier may have come between the two. -#}
{% macro check_is_no_copy(backfill, original) %}
    {%- if not original -%} {{ return(none) }} {%- endif -%}
    {%- set mv = backfill.mv.render() -%}
    {%- do dbt_backfill.refuse(
        mv ~ ' is a copy of the MV ' ~ original ~ ', and so is its state, by something else than clone_backfill, so that nobody '
            ~ 'knows whether they are of one barrier',
        'Drop them and run clone_backfill, ' ~ dbt_backfill.or_adopt_text(backfill) ~ '. If it was only renamed, with its state: ALTER TABLE ' ~ mv
            ~ " SET TBLPROPERTIES ('dbt_backfill.mv' = '" ~ mv ~ "')", mv=backfill.get('name')
    ) -%}
{% endmacro %}
