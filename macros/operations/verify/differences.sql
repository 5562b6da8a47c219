{#-
    A select of one row per key that differs: `__bf_key_1` and so on, and all rows of the key, as arrays of structs of
    the MV's columns: `promised` by the definition, and `present` in the MV.

    It compares again, so that it returns nothing once the difference was merged.
-#}
{% macro get_differences_sql(verified, selection, found) -%}
    {%- set columns = dbt_backfill.identifiers(verified.columns | map(attribute='name')) -%}
    {%- set keys = dbt_backfill.get_staged_keys(verified.key) -%}
    {%- set compared = dbt_backfill.comparable_columns(verified.columns, 'row.').values() | join(', ') -%}
    {%- set staged, joined = dbt_backfill.staged_key_names(verified.key), [] -%}
    {%- for name in staged -%} {%- do joined.append('sides.' ~ name ~ ' <=> stage.' ~ name) -%} {%- endfor -%}
    select *
    from (
        select
            {{ staged | join(', ') }},
            collect_list(__bf_row) filter (where __bf_is_promised) as promised,
            collect_list(__bf_row) filter (where not __bf_is_promised) as present
        from (
            select {{ keys }}, struct({{ columns }}) as __bf_row, true as __bf_is_promised
            from (
                {{ dbt_backfill.get_promised_sql(verified, verified.state, selection) }}
            )
            union all
            select {{ keys }}, struct({{ columns }}) as __bf_row, false as __bf_is_promised
            from {{ dbt_backfill.get_present_sql(verified, verified.state) }}
            where {{ dbt_backfill.selection_predicate(selection, verified.key) }}
        ) as sides
        left semi join {{ found.stage }} as stage on {{ joined | join(' and ') }}
        group by {{ staged | join(', ') }}
    )
    where array_sort(transform(promised, row -> struct({{ compared }})))
        != array_sort(transform(present, row -> struct({{ compared }})))
{%- endmacro %}


{#-
    The keys that differ, by kind: a list of {
      'kind': `missing` in the MV, `unexpected` there, `changed` in a column, or `duplicated`, more than once,
      'count',
      'samples': a list of {'key', 'promised', 'present': lists of rows, 'columns': the numbers of those that changed}
    }

    All values are texts; `samples` has no more than `sample` keys over all kinds.
-#}
{% macro read_differences(verified, selection, found, sample) %}
    {{ return(dbt_backfill.run_json(
        'read the differences', dbt_backfill.get_kinds_sql(verified, selection, found, sample), verified.mv
    )) }}
{% endmacro %}


{% macro get_kinds_sql(verified, selection, found, sample) -%}
    {%- set keys, joined, texts = dbt_backfill.staged_key_names(verified.key), [], [] -%}
    {%- for name in keys -%}
        {%- do joined.append('differences.' ~ name ~ ' <=> sampled.' ~ name) -%}
        {%- do texts.append(dbt_backfill.text_expression('differences.' ~ name, verified.key[loop.index0].type)) -%}
    {%- endfor -%}
    select to_json(named_struct(
        'kind', kind,
        'count', count(*),
        'samples', transform(array_sort(collect_list(sample) filter (where sample is not null)), row -> row.shown)
    ))
    from (
        select
            case
                when size(present) = 0 then 'missing'
                when size(promised) = 0 then 'unexpected'
                when size(present) = 1 and size(promised) = 1 then 'changed'
                else 'duplicated'
            end as kind,
            if(is_sampled, struct({{ keys | join(', ') }}, named_struct(
                'key', array({{ texts | join(', ') }}),
                'promised', {{ dbt_backfill.get_row_texts('promised', verified.columns) }},
                'present', {{ dbt_backfill.get_row_texts('present', verified.columns) }},
                'columns', {{ dbt_backfill.get_changed_columns(verified.columns) }}
            ) as shown), null) as sample
        from (
            select differences.*, sampled.is_sampled
            from (
                {{ dbt_backfill.get_differences_sql(verified, selection, found) }}
            ) as differences
            left join (
                select *, true as is_sampled from {{ found.stage }} order by {{ keys | join(', ') }} limit {{ sample }}
            ) as sampled
            on {{ joined | join(' and ') }}
        ) as differences
    )
    group by kind
    order by kind
{%- endmacro %}


{#- The first rows of an array, each as an array of texts. -#}
{% macro get_row_texts(rows, columns) -%}
    {%- set texts = [] -%}
    {%- for column in columns -%}
        {%- do texts.append(dbt_backfill.text_expression('row.' ~ dbt_backfill.identifier(column.name), column.type)) -%}
    {%- endfor -%}
    {{ return('transform(slice(' ~ rows ~ ', 1, 3), row -> array(' ~ texts | join(', ') ~ '))') }}
{%- endmacro %}


{#- The numbers of the columns, from 0, in which the first row of either side differs. -#}
{% macro get_changed_columns(columns) -%}
    {%- set numbers = [] -%}
    {%- set promised = dbt_backfill.comparable_columns(columns, 'promised[0].') -%}
    {%- set present = dbt_backfill.comparable_columns(columns, 'present[0].') -%}
    {%- for name in promised -%}
        {%- do numbers.append('if(' ~ promised[name] ~ ' <=> ' ~ present[name] ~ ', -1, ' ~ loop.index0 ~ ')') -%}
    {%- endfor -%}
    {{ return('if(size(promised) = 0 or size(present) = 0, array(), filter(array(' ~ numbers | join(', ')
        ~ '), number -> number >= 0))') }}
{%- endmacro %}


{#- A value as the text that is shown: on one line, strings in quotes, NULL for a null. -#}
{% macro text_expression(column, type) -%}
    {%- if type.startswith(('string', 'char', 'varchar')) -%}
        {%- set text = "concat('\\'', " ~ column ~ ", '\\'')" -%}
    {%- elif type == 'binary' -%}
        {%- set text = "concat('X\\'', hex(" ~ column ~ "), '\\'')" -%}
    {%- elif 'variant' in type -%}
        {%- set text = 'to_json(struct(' ~ column ~ '))' -%}
    {%- else -%}
        {%- set text = 'cast(' ~ column ~ ' as string)' -%}
    {%- endif -%}
    {{ return("coalesce(left(translate(" ~ text ~ ", '\\n\\r\\t', '   '), 2000), 'NULL')") }}
{%- endmacro %}
