{#-
    Return a select of one row per key that differs. It has the key, and two arrays of structs with the MV's columns: `__bf_promised` (the key's rows
    in the definition) and `__bf_present` (its rows in the MV). The select compares both again, so it returns no rows once the difference was merged.
-#}
{% macro get_differences_sql(verified, selection, found) -%}
    {%- set columns = dbt_backfill.identifiers(verified.columns | map(attribute='name')) -%}
    {%- set compared = dbt_backfill.comparable_columns(verified.compared, 'row.').values() | join(', ') -%}
    {%- set names, joined = dbt_backfill.mv_columns(verified.key), [] -%}
    {%- for name in names -%} {%- do joined.append('sides.' ~ name ~ ' <=> stage.' ~ name) -%} {%- endfor -%}
    {%- set keys = names | join(', ') -%}
    select *
    from (
        select
            {{ keys }},
            collect_list(__bf_row) filter (where __bf_is_promised) as __bf_promised,
            collect_list(__bf_row) filter (where not __bf_is_promised) as __bf_present
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
        group by {{ keys }}
    )
    where array_sort(transform(__bf_promised, row -> struct({{ compared }})))
        != array_sort(transform(__bf_present, row -> struct({{ compared }})))
{%- endmacro %}


{#-
    Return the keys that differ, by kind: a list of {
      'kind': `missing` in the MV, `unexpected` in the MV, `changed` in a column, or `duplicated`: more than once in the MV,
      'count',
      'samples': a list of {'key', 'promised', 'present': lists of the first rows of the definition and of the MV, 'columns': the numbers
        of the columns that differ, counted from 0}
    }

    All values are strings. There are at most `sample` samples in all.
-#}
{% macro read_differences(verified, selection, found, sample) %}
    {%- set names, joined, key, row, changed = dbt_backfill.mv_columns(verified.key), [], [], [], [] -%}
    {%- for name in names -%}
        {%- do joined.append('differences.' ~ name ~ ' <=> sampled.' ~ name) -%}
        {%- do key.append(dbt_backfill.text_expression('differences.' ~ name, verified.key[loop.index0].type)) -%}
    {%- endfor -%}
    {%- set promised = dbt_backfill.comparable_columns(verified.compared, '__bf_promised[0].') -%}
    {%- set present = dbt_backfill.comparable_columns(verified.compared, '__bf_present[0].') -%}
    {%- for column in verified.columns -%}
        {%- do row.append(dbt_backfill.text_expression('row.' ~ dbt_backfill.identifier(column.name), column.type)) -%}
        {%- if column in verified.compared -%}
            {%- do changed.append('if(' ~ promised[column.name] ~ ' <=> ' ~ present[column.name] ~ ', -1, ' ~ loop.index0 ~ ')') -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set keys = names | join(', ') -%}
    {%- set sql -%}
    select to_json(named_struct(
        'kind', kind,
        'count', count(*),
        'samples', transform(array_sort(collect_list(sample) filter (where sample is not null)), row -> row.__bf_shown)
    ))
    from (
        select
            case
                when size(__bf_present) = 0 then 'missing'
                when size(__bf_promised) = 0 then 'unexpected'
                when size(__bf_present) = 1 and size(__bf_promised) = 1 then 'changed'
                else 'duplicated'
            end as kind,
            if(__bf_is_sampled, struct({{ keys }}, named_struct(
                'key', array({{ key | join(', ') }}),
                'promised', transform(slice(__bf_promised, 1, 3), row -> array({{ row | join(', ') }})),
                'present', transform(slice(__bf_present, 1, 3), row -> array({{ row | join(', ') }})),
                'columns', if(size(__bf_promised) = 0 or size(__bf_present) = 0, array(), filter(
                    array({{ changed | join(', ') }}), number -> number >= 0
                ))
            ) as __bf_shown), null) as sample
        from (
            select differences.*, sampled.__bf_is_sampled
            from (
                {{ dbt_backfill.get_differences_sql(verified, selection, found) }}
            ) as differences
            left join (
                select *, true as __bf_is_sampled from {{ found.stage }} order by {{ keys }} limit {{ sample }}
            ) as sampled
            on {{ joined | join(' and ') }}
        ) as differences
    )
    group by kind
    order by kind
    {%- endset -%}
    {{ return(dbt_backfill.run_json('read the differences', sql, verified.mv)) }}
{% endmacro %}


{#- Return an expression for the text in which a value is shown: on one line, strings in quotes, NULL for a null. -#}
{% macro text_expression(column, type) -%}
    {%- set text = "concat('\\'', " ~ column ~ ", '\\'')" if type.startswith(('string', 'char', 'varchar'))
        else "concat('X\\'', hex(" ~ column ~ "), '\\'')" if type == 'binary'
        else 'to_json(struct(' ~ column ~ '))' if 'variant' in type
        else 'cast(' ~ column ~ ' as string)' -%}
    {{ return("coalesce(left(translate(" ~ text ~ ", '\\n\\r\\t', '   '), 2000), 'NULL')") }}
{%- endmacro %}


{#-
    Merge the difference: update rows that differ, insert missing rows, and delete unexpected rows. If a key has several rows in the MV or in the
    definition, delete all rows of this key in the MV, and insert the rows of the definition.

    A repair is not a barrier: the MV stays at its epoch. If the statement is sent twice, the second execution finds no difference. If a barrier
    begins during the repair, the barrier or the repair fails with a conflict. In two cases there is no conflict: they write different keys, or the
    barrier writes nothing because it only drops a row that the MV lacks.
-#}
{% macro run_repair(verified, selection, found) %}
    {%- set kept = dbt_backfill.unaltered_partition_predicate(verified, verified.columns, '__bf_write.row.') -%}
    {#- A source row with the action `insert` matches no row of the MV; a separate source row deletes the existing rows of the key. Null keys are
        equal. -#}
    {%- set matches, keys, committed = ["repair.__bf_action != 'insert'"], [], verified.state.committed -%}
    {%- set repair = committed.plan_id ~ ' repair' -%}
    {%- set mark = dbt_backfill.get_mark(verified, repair, 'repair') -%}
    {%- for column in dbt_backfill.mv_columns(verified.key) -%}
        {#- The row to write already has a column of this name, so the key's column gets another name. -#}
        {%- do keys.append(column ~ ' as __bf_key_' ~ loop.index) -%}
        {%- do matches.append('mv.' ~ column ~ ' <=> repair.__bf_key_' ~ loop.index) -%}
    {%- endfor -%}
    {#- With the first and last differing key as bounds, Spark can skip files of the MV. -#}
    {%- set range = dbt_backfill.selection_predicate(dict(selection, vnodes=none, unsettled=none), verified.key, 'mv.') -%}
    {%- if range != 'true' -%} {%- do matches.append(range) -%} {%- endif -%}
    {%- set sql -%}
        merge into {{ verified.mv.render() }} as mv
        using (
            select * except (__bf_write), __bf_write.action as __bf_action, __bf_write.row.*{{ mark.column }}
            from (
                select {{ keys | join(', ') }}, explode(if(
                    size(__bf_promised) = 1 and size(__bf_present) <= 1,
                    transform(__bf_promised, row -> named_struct('action', 'put', 'row', row)),
                    concat(
                        {#- `get` returns a null of the struct's type, because the index is outside of the array. #}
                        filter(array(named_struct('action', 'delete', 'row', get(__bf_promised, -1))), write -> size(__bf_present) > 0),
                        transform(__bf_promised, row -> named_struct('action', 'insert', 'row', row))
                    )
                )) as __bf_write
                from (
                    {{ dbt_backfill.get_differences_sql(verified, selection, found) }}
                )
            )
            where {{ dbt_backfill.get_fence(verified, none, verified.state) }}
                {{- ' and ' ~ kept if kept }}
        ) as repair
        on {{ matches | join(' and ') }}
        when matched and repair.__bf_action = 'delete'{{ mark.condition }} then delete
        when matched then update set *
        when not matched and repair.__bf_action != 'delete' then insert *
    {%- endset -%}
    {%- if verified.options.file_format == 'iceberg' -%}
        {%- do dbt_backfill.run_table('mark the repair', dbt_backfill.get_mark_statement(committed.backfill_id, repair), verified.mv) -%}
    {%- endif -%}
    {%- do dbt_backfill.run_table('repair the MV', sql, verified.mv) -%}
    {%- if verified.options.file_format == 'iceberg' -%}
        {%- do dbt_backfill.run_table('end the mark', dbt_backfill.get_mark_statement(committed.backfill_id), verified.mv) -%}
    {%- endif -%}
{% endmacro %}


{#- Print the counts, and a sample of the keys, in lines of up to 80 characters. For a changed key, print both values of each differing column. For
    any other key, print its rows without the key's columns. `found`: the result of run_comparison. Its 'kinds' are described at read_differences; its
    'counts' is a text such as `2 changed, 1 missing`. `compared`: a text such as `mv: 12,345 rows of the vnodes 3, 7 compared`. -#}
{% macro report_differences(verified, found, compared, sample) %}
    {%- set differ = dbt_backfill.get_count_text(found.differing, 'key') ~ (' differs' if found.differing == 1 else ' differ') -%}
    {%- do log(compared ~ ', ' ~ differ ~ ': ' ~ found.counts, info=true) -%}
    {%- set names = verified.key | map(attribute='name') | list -%}
    {%- for kind in found.kinds -%}
        {%- for shown in kind.samples -%}
            {%- set key, lines = [], [] -%}
            {%- for name in names -%} {%- do key.append(name ~ '=' ~ shown.key[loop.index0]) -%} {%- endfor -%}
            {%- do lines.append(dbt_backfill._shortened(kind.kind ~ ' ' ~ key | join(', '), none, 76)) -%}
            {%- for number in shown['columns'] if kind.kind == 'changed' -%}
                {%- set expected, actual = shown.promised[0][number], shown.present[0][number] -%}
                {%- do lines.append('  ' ~ dbt_backfill._shortened(verified.columns[number].name, none, 74)) -%}
                {%- do lines.append('    expected ' ~ dbt_backfill._shortened(expected, actual, 63)) -%}
                {%- do lines.append('    found    ' ~ dbt_backfill._shortened(actual, expected, 63)) -%}
            {%- endfor -%}
            {%- for word, rows in [('expected ', shown.promised), ('found    ', shown.present)] if kind.kind != 'changed' -%}
                {%- for row in rows -%}
                    {%- set values = [] -%}
                    {%- for column in verified.columns -%}
                        {%- if column.name not in names -%} {%- do values.append(column.name ~ '=' ~ row[loop.index0]) -%} {%- endif -%}
                    {%- endfor -%}
                    {%- do lines.append('    ' ~ word ~ dbt_backfill._shortened(values | join(', ') or 'the key alone', none, 63)) -%}
                {%- endfor -%}
            {%- endfor -%}
            {%- for line in lines -%} {%- do log('  ' ~ line, info=true) -%} {%- endfor -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if 0 < sample < found.differing -%}
        {%- do log('  and ' ~ dbt_backfill.get_count_text(found.differing - sample, 'key') ~ ' more', info=true) -%}
    {%- endif -%}
{% endmacro %}


{#- Return at most `width` characters of a text, from shortly before the first character that differs from `other`. -#}
{% macro _shortened(text, other, width) %}
    {%- if text | length <= width -%} {{ return(text) }} {%- endif -%}
    {%- set differing = [] -%}
    {%- for character in text if other is not none -%}
        {%- if loop.index0 >= other | length or character != other[loop.index0] -%} {%- do differing.append(loop.index0) -%} {%- endif -%}
    {%- endfor -%}
    {%- set start = [0, [(differing + [0])[0] - 20, text | length - width + 1] | min] | max -%}
    {%- set shown = ('…' if start else '') ~ text[start:] -%}
    {{ return(shown if shown | length <= width else shown[:width - 1] ~ '…') }}
{% endmacro %}
