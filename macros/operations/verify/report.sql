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
