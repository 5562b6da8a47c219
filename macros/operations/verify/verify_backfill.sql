{#-
    Compare an MV with its definition, Q(upstream @ S where pk <= current_pos), and print the keys that differ. With `repair: true`, merge the
    difference. Without a repair, the operation fails if keys differ.

    Usage:
      dbt run-operation verify_backfill --args '{model: my_mv}'
      dbt run-operation verify_backfill --args '{model: my_mv, vnodes: [3, 7]}'
      dbt run-operation verify_backfill --args '{model: my_mv, key_from: [10, a], key_to: [20], repair: true}'

    Arguments:
      model (string): the model's name, or `package.name`, or `name.v2` if the model has versions.
      vnodes (list of integers): only the keys of these vnodes.
      key_from, key_to (list, or one value): only the keys from key_from to key_to, both inclusive, in the order of the key. A value is a text that
        Spark can cast to the column's type; a binary value is in hex. If there are fewer values than key columns, all keys that begin with these
        values are included.
      sample (integer): how many differing keys are shown at most.
      repair (boolean): true to merge the difference.
-#}
{% macro verify_backfill(model=none, vnodes=none, key_from=none, key_to=none, sample=10, repair=false) %}
    {%- set node = dbt_backfill.find_backfilled_mv(model, 'verify_backfill') -%}
    {%- set given = {'model': model, 'vnodes': vnodes, 'key_from': key_from, 'key_to': key_to, 'sample': sample, 'repair': repair} -%}
    {%- set numbers = dbt_backfill.as_list(vnodes) -%}
    {%- set checks = {
        'repair': [repair is boolean, 'true or false'],
        'sample': [sample is integer and sample >= 0, 'a whole number of 0 or more'],
        'vnodes': [
            vnodes is none or vnodes is not mapping and numbers and not numbers | reject('integer') | list, 'a list of vnode numbers, or leave it out'
        ],
    } -%}
    {%- for argument in ['key_from', 'key_to'] if given[argument] is not none -%}
        {%- set values = dbt_backfill.as_list(given[argument]) -%}
        {%- set allowed = given[argument] is not mapping and values and not values | select('none') | list -%}
        {%- do checks.update({argument: [allowed, 'a list of key values, in the order of the key']}) -%}
    {%- endfor -%}
    {%- do dbt_backfill.check_arguments('verify_backfill', given, kwargs, checks, dbt_backfill.get_model_name(node)) -%}
    {%- set verified = dbt_backfill.observe_verified(node) -%}
    {%- set selection = dbt_backfill.read_selection(verified, given) -%}
    {%- set defined = dbt_backfill.stage_definition(verified, verified.state) -%}
    {%- if defined.unsettled -%}
        {%- set count = dbt_backfill.run_table(
            'count the keys that changed', 'select count(*) from (' ~ defined.unsettled ~ ')', verified.mv
        )[0][0] | int -%}
        {%- do log(verified.name ~ ': ' ~ dbt_backfill.get_count_text(count, 'key') ~ (' has' if count == 1 else ' have')
            ~ ' changed since its last barrier, and cannot be compared', info=true) -%}
    {%- endif -%}
    {%- set verified, selection = dict(verified, state=defined.state), dict(selection, unsettled=defined.unsettled) -%}
    {%- set found = dbt_backfill.run_comparison(verified, selection) -%}
    {%- set parts = [verified.name ~ ': ' ~ dbt_backfill.get_count_text(found.rows, 'row')] -%}
    {%- for argument, form in [('vnodes', 'of the vnodes {}'), ('key_from', 'from ({})'), ('key_to', 'to ({})')] if given[argument] is not none -%}
        {%- do parts.append(form.format(dbt_backfill.as_list(given[argument]) | join(', '))) -%}
    {%- endfor -%}
    {%- set compared = parts | join(' ') ~ ' compared' -%}
    {%- if not found.differing -%}
        {%- do dbt_backfill.drop_stages([found.stage], verified.mv) -%}
        {%- do log(compared ~ ', all equal', info=true) -%}
        {{ return(none) }}
    {%- endif -%}
    {#- With literals as bounds, Spark can skip files. No range contains a null key, so with null keys the bounds are not used. -#}
    {%- set narrowed = selection if found.null_keys else dict(selection, low=found.low, high=found.high) -%}
    {%- set kinds, counts = dbt_backfill.read_differences(verified, narrowed, found, sample), [] -%}
    {%- for kind in kinds -%} {%- do counts.append(dbt_backfill.get_count_text(kind.count) ~ ' ' ~ kind.kind) -%} {%- endfor -%}
    {%- set found = dict(found, kinds=kinds, counts=counts | join(', ')) -%}
    {%- do dbt_backfill.report_differences(verified, found, compared, sample) -%}
    {%- if repair -%} {%- do dbt_backfill.run_repair(verified, narrowed, found) -%} {%- endif -%}
    {%- do dbt_backfill.drop_stages([found.stage], verified.mv) -%}
    {%- if not repair -%}
        {%- do dbt_backfill.refuse(
            dbt_backfill.get_count_text(found.differing, 'key') ~ ' of ' ~ verified.mv.render()
                ~ (' differs' if found.differing == 1 else ' differ') ~ ' from the result of its query (' ~ found.counts ~ ')',
            'Find out what wrote to the table, and merge the difference with the argument repair: true', mv=verified.name, id='mv-differs-from-query'
        ) -%}
    {%- endif -%}
    {%- set again = dbt_backfill.run_comparison(verified, narrowed, repaired=true) -%}
    {%- do dbt_backfill.drop_stages([again.stage], verified.mv) -%}
    {%- if again.differing -%}
        {%- do dbt_backfill.refuse(
            dbt_backfill.get_count_text(again.differing, 'key') ~ ' of ' ~ verified.mv.render() ~ ' still differ'
                ~ ('s' if again.differing == 1 else '') ~ ' after the repair',
            'Stop the other writer of this table, and verify the MV again', mv=verified.name, id='repair-incomplete') -%}
    {%- endif -%}
    {%- set repaired = dbt_backfill.get_count_text(found.differing, 'key') ~ ' repaired (' ~ found.counts ~ ')' -%}
    {%- set of_keys = ' of the verified keys' if found.null_keys else ' from the first of these keys to the last' -%}
    {%- do log(verified.name ~ ': ' ~ repaired, info=true) -%}
    {%- do log(verified.name ~ ': ' ~ dbt_backfill.get_count_text(again.rows, 'row') ~ of_keys ~ ' compared again, all equal', info=true) -%}
{% endmacro %}


{#- Return the part of the keys that the arguments select, in the form that selection_predicate needs. -#}
{% macro read_selection(verified, given) %}
    {%- set selection = {'vnodes': none, 'vnode_count': verified.state.committed.vnode_count} -%}
    {%- if given.vnodes is not none -%}
        {%- do selection.update({'vnodes': dbt_backfill.as_list(given.vnodes) | unique | sort}) -%}
        {%- for vnode in selection.vnodes if not 0 <= vnode < selection.vnode_count -%}
            {%- do dbt_backfill.refuse('the argument vnodes contains vnode ' ~ vnode ~ ', but the MV has ' ~ selection.vnode_count ~ ' vnodes',
                'Use vnode numbers from 0 to ' ~ (selection.vnode_count - 1), mv=verified.name, id='argument-vnode-unknown') -%}
        {%- endfor -%}
    {%- endif -%}
    {%- if given.key_from is none and given.key_to is none -%} {{ return(selection) }} {%- endif -%}
    {#- Spark casts key_from and key_to and renders them as `low` and `high`, literals of the key's types. -#}
    {%- set bounds = {} -%}
    {%- for argument in ['key_from', 'key_to'] -%}
        {%- set values, bound = [] if given[argument] is none else dbt_backfill.as_list(given[argument]), [] -%}
        {%- if values | length > verified.key | length -%}
            {%- do dbt_backfill.refuse(
                'the argument ' ~ argument ~ ' has ' ~ dbt_backfill.get_count_text(values | length, 'value') ~ ', but the key of the MV has '
                    ~ dbt_backfill.get_count_text(verified.key | length, 'column'),
                'Give values of ' ~ verified.key | map(attribute='name') | join(', '), mv=verified.name, id='argument-key-length') -%}
        {%- endif -%}
        {%- for value in values -%}
            {%- set type, text = verified.key[loop.index0].type, dbt_backfill.string_literal(value) -%}
            {#- The result is null if Spark cannot cast the value. -#}
            {%- set cast = text if type == 'string' else 'unhex(' ~ text ~ ')' if type == 'binary'
                else 'try_cast(' ~ text ~ ' as ' ~ dbt_backfill.type_sql(type) ~ ')' -%}
            {%- do bound.append({'value': cast, 'literal': dbt_backfill.literal_expression(cast, type)}) -%}
        {%- endfor -%}
        {%- do bounds.update({argument: bound}) -%}
    {%- endfor -%}
    {%- set low, high = bounds.key_from, bounds.key_to -%}
    {%- set both = [low | length, high | length] | min -%}
    {%- set sql -%}
        select to_json(named_struct(
            'low', array({{ low | map(attribute='literal') | join(', ') }}),
            'high', array({{ high | map(attribute='literal') | join(', ') }}),
            'is_empty', {{ dbt_backfill.tuple_predicate(
                low[:both] | map(attribute='value') | list, '>', high[:both] | map(attribute='value') | list
            ) if both else 'false' }}
        ))
    {%- endset -%}
    {%- set read = dbt_backfill.run_json('read the key range', sql, verified.mv)[0] -%}
    {%- for argument, literals in [('key_from', read.low), ('key_to', read.high)] -%}
        {%- set values = dbt_backfill.as_list(given[argument]) -%}
        {%- for literal in literals -%}
            {%- set key, value = verified.key[loop.index0], values[loop.index0] -%}
            {#- YAML reads an unquoted 007 as a number. -#}
            {%- if literal is none or key.type == 'string' and value is not string -%}
                {%- do dbt_backfill.refuse(
                    'the argument ' ~ argument ~ ' has ' ~ tojson(value, value | string) ~ ', but the column ' ~ key.name
                        ~ ' has the type ' ~ key.type,
                    'Give a value of this type' ~ (', in quotes' if key.type == 'string' else ''), mv=verified.name, id='argument-key-type') -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if read.is_empty -%}
        {%- do dbt_backfill.refuse('the argument key_from is above the argument key_to',
            'Exchange the two values', mv=verified.name, id='argument-key-order') -%}
    {%- endif -%}
    {{ return(dict(selection, low=read.low or none, high=read.high or none)) }}
{% endmacro %}
