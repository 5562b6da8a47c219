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


{#-
    Merge the difference: rows that differ are updated, missing ones inserted, unexpected ones deleted. Of a key that
    stands more than once in the MV, or has to, all rows are deleted and the promised ones inserted.

    It is no barrier: the epoch stays, and the MV gets what this epoch promises. Sent twice it finds no difference the
    second time. Of it and the MERGE of a barrier that begins meanwhile one loses the conflict, unless they write other keys, or
    that barrier drops a row that the MV lacks, and so writes none.
-#}
{% macro run_repair(verified, selection, found) %}
    {%- set kept = dbt_backfill.get_kept_predicate(verified, verified.columns, '__bf_write.row.') -%}
    {%- set sql -%}
        merge into {{ verified.mv.render() }} as mv
        using (
            {{ dbt_backfill.get_repair_rows_sql(verified, selection, found) }}
            where {{ dbt_backfill.get_fence_of_epoch(verified, verified.state.epoch) }}
                {{- ' and ' ~ kept if kept }}
        ) as repair
        on {{ dbt_backfill._repair_condition(verified, selection) }}
        when matched and repair.__bf_action = 'delete' then delete
        when matched then update set *
        when not matched and repair.__bf_action != 'delete' then insert *
    {%- endset -%}
    {%- do dbt_backfill.run_table('repair the MV', sql, verified.mv) -%}
{% endmacro %}


{#-
    A select of the rows to write: the key, `__bf_action`, and the MV's columns, null where the action is `delete`.
    A row to `insert` matches nothing: the row that deletes its key does.
-#}
{% macro get_repair_rows_sql(verified, selection, found) -%}
    {%- set keys = dbt_backfill.staged_key_names(verified.key) -%}
    select {{ keys | join(', ') }}, __bf_write.action as __bf_action, __bf_write.row.*
    from (
        select {{ keys | join(', ') }}, explode(if(
            size(promised) = 1 and size(present) <= 1,
            transform(promised, row -> named_struct('action', 'put', 'row', row)),
            concat(
                {#- A row of nulls has the struct's type beyond the end of the array. #}
                filter(array(named_struct('action', 'delete', 'row', get(promised, -1))), write -> size(present) > 0),
                transform(promised, row -> named_struct('action', 'insert', 'row', row))
            )
        )) as __bf_write
        from (
            {{ dbt_backfill.get_differences_sql(verified, selection, found) }}
        )
    )
{%- endmacro %}


{#- The key, as equal where both are null, and the range of the keys that differ, which prunes the MV's files. -#}
{% macro _repair_condition(verified, selection) -%}
    {%- set names, parts = dbt_backfill.staged_key_names(verified.key, 'repair.'), ["repair.__bf_action != 'insert'"] -%}
    {%- for column in dbt_backfill.mv_columns(verified.key, 'mv.') -%}
        {%- do parts.append(column ~ ' <=> ' ~ names[loop.index0]) -%}
    {%- endfor -%}
    {%- set range = dict(selection, vnodes=none, unsettled=none) -%}
    {{ return((parts + [dbt_backfill.selection_predicate(range, verified.key, 'mv.')]) | reject('equalto', 'true') | join(' and ')) }}
{%- endmacro %}


{#- What was compared, such as `mv: 12,345 rows of the vnodes 3, 7 compared`. -#}
{% macro get_compared_text(verified, found, given={}) %}
    {%- set parts = [verified.name ~ ': ' ~ dbt_backfill.get_count_text(found.rows, 'row')] -%}
    {%- if given.get('vnodes') is not none -%}
        {%- do parts.append('of the vnodes ' ~ dbt_backfill.as_list(given.vnodes) | join(', ')) -%}
    {%- endif -%}
    {%- for argument, word in [('key_from', 'from'), ('key_to', 'to')] if given.get(argument) is not none -%}
        {%- do parts.append(word ~ ' (' ~ dbt_backfill.as_list(given[argument]) | join(', ') ~ ')') -%}
    {%- endfor -%}
    {{ return(parts | join(' ') ~ ' compared') }}
{% endmacro %}


{#- `2 changed, 1 missing`. -#}
{% macro get_kinds_text(kinds) %}
    {%- set texts = [] -%}
    {%- for kind in kinds -%} {%- do texts.append('{:,} {}'.format(kind.count, kind.kind)) -%} {%- endfor -%}
    {{ return(texts | join(', ')) }}
{% endmacro %}


{#- The counts, and a sample of the keys with both values, in lines of up to 80 characters. -#}
{% macro report_differences(verified, found, kinds, compared, sample) %}
    {%- set differ = dbt_backfill.get_count_text(found.differing, 'key') ~ (' differs' if found.differing == 1 else ' differ') -%}
    {%- do log(compared ~ ', ' ~ differ ~ ': ' ~ dbt_backfill.get_kinds_text(kinds), info=true) -%}
    {%- for kind in kinds -%}
        {%- for shown in kind.samples -%}
            {%- for line in dbt_backfill.get_sample_lines(verified, kind.kind, shown) -%}
                {%- do log('  ' ~ line, info=true) -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if 0 < sample < found.differing -%}
        {%- do log('  and ' ~ dbt_backfill.get_count_text(found.differing - sample, 'key') ~ ' more', info=true) -%}
    {%- endif -%}
{% endmacro %}


{#- One key: of a changed one both values of each column that differs, else all its rows. -#}
{% macro get_sample_lines(verified, kind, shown) %}
    {%- set key = [] -%}
    {%- for column in verified.key -%} {%- do key.append(column.name ~ '=' ~ shown.key[loop.index0]) -%} {%- endfor -%}
    {%- set lines = [dbt_backfill._shortened(kind ~ ' ' ~ key | join(', '), none, 76)] -%}
    {%- if kind == 'changed' -%}
        {%- for number in shown['columns'] -%}
            {%- set expected, actual = shown.promised[0][number], shown.present[0][number] -%}
            {%- do lines.append('  ' ~ dbt_backfill._shortened(verified.columns[number].name, none, 74)) -%}
            {%- do lines.append('    expected ' ~ dbt_backfill._shortened(expected, actual, 63)) -%}
            {%- do lines.append('    found    ' ~ dbt_backfill._shortened(actual, expected, 63)) -%}
        {%- endfor -%}
        {{ return(lines) }}
    {%- endif -%}
    {%- for word, rows in [('expected ', shown.promised), ('found    ', shown.present)] -%}
        {%- for row in rows -%}
            {%- do lines.append('    ' ~ word ~ dbt_backfill._shortened(dbt_backfill._row_text(verified, row), none, 63)) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(lines) }}
{% endmacro %}


{#- The values of a row but for its key, with their names. -#}
{% macro _row_text(verified, row) %}
    {%- set values = [] -%}
    {%- for column in verified.columns -%}
        {%- if column.name not in verified.key | map(attribute='name') -%}
            {%- do values.append(column.name ~ '=' ~ row[loop.index0]) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(values | join(', ') or 'the key alone') }}
{% endmacro %}


{#- At most `width` characters of a text, from shortly before where it begins to differ from the other. -#}
{% macro _shortened(text, other, width) %}
    {%- if text | length <= width -%} {{ return(text) }} {%- endif -%}
    {%- set at = namespace(differs=none) -%}
    {%- for character in text if other is not none and at.differs is none -%}
        {%- if loop.index0 >= other | length or character != other[loop.index0] -%} {%- set at.differs = loop.index0 -%} {%- endif -%}
    {%- endfor -%}
    {%- set start = [0, [(at.differs or 0) - 20, text | length - width + 1] | min] | max -%}
    {%- set shown = ('…' if start else '') ~ text[start:] -%}
    {{ return(shown if shown | length <= width else shown[:width - 1] ~ '…') }}
{% endmacro %}


{#- What was repaired. `again` is the comparison after it. -#}
{% macro report_repair(verified, found, kinds, again) %}
    {%- if again.differing -%}
        {%- do dbt_backfill.refuse(
            dbt_backfill.get_count_text(again.differing, 'key') ~ ' of ' ~ verified.mv.render() ~ ' still differ'
                ~ ('s' if again.differing == 1 else '') ~ ' after the repair',
            'Something else writes to the table: stop it, and verify it again', mv=verified.name
        ) -%}
    {%- endif -%}
    {%- do log(verified.name ~ ': ' ~ dbt_backfill.get_count_text(found.differing, 'key') ~ ' repaired ('
        ~ dbt_backfill.get_kinds_text(kinds) ~ ')', info=true) -%}
    {%- do log(verified.name ~ ': ' ~ dbt_backfill.get_count_text(again.rows, 'row')
        ~ (' of the verified keys' if found.null_keys else ' from the first of these keys to the last')
        ~ ' compared again, all equal', info=true) -%}
{% endmacro %}
