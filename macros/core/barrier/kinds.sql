{#-
    The kinds of barriers, one record each. What the steps and the commit do follows from these fields. Reports, and what is true of one
    kind alone, test `kind` itself. The plan of epoch 0 has the kind `create`, `adopt` or `replace`, which no barrier executes.

      follows          true if the barrier brings the MV to a version of the upstream; only such a barrier counts towards
                       `barriers_per_run`
      merges_changes   true if it merges what changed upstream up to the position; 'limited': only if its plan names what
                       plans that were given up could write to (`touched`, see find_touched)
      slice            the rows that it reads of the snapshot: 'insert', the next range above the position, where the MV has
                       no rows, or, in a sweep, rows that are compared; 'replace', a window up to the position, which is
                       compared; 'all', everything up to the position, which is compared; none
      table            'keep' the MV; 'empty', replace it by an empty one; 'swap', by the rows of the next generation
      positions        what the commit does to the positions of the vnodes, see get_positions_columns

    And what each is for:

      advance    the barrier as a rule. The changes are filtered by the old position and the range is read at the new version,
                 so that they are disjoint and the MV is an exact prefix also between the two
      fill       the query returns more columns than before, and the rows that are there get them, window by window. How far the
                 new columns hold is a second position, see new_filling. All columns of a window are compared, so that it ends as
                 the query gives it whatever it was
      reanchor   no feed leads from the committed version to the one that is read: the MV is put right at the same position, the
                 whole of it, or only what plans that were given up could write to
      sweep      the same in slices. The position goes back to the start at the new version, and the rows stay: the ranges of the
                 barriers after it are compared with them, see is_sweeping
      reset      a full refresh: no vnode has started. Changes and ranges are read by the barriers after it
      swap       the end of a full refresh beside the MV in use, see run_beside
      rescale    another number of vnodes, a multiple or a divisor. Nothing is read upstream. Vnodes that come together take the
                 lowest position of theirs; the rows above it are removed, and a later range reads them again
      abandon    what is left of a plan that was given up: its epoch is committed at the old position and version, and as
                 `dirty`, since one of its MERGEs may have been sent. A re-anchor follows, or, after a reset, another reset

    choose_plan chooses the kind of a plan, mark_abandoned makes a plan one of the kind 'abandon', and rescale_backfill plans a
    'rescale'. get_steps has the statements.
-#}
{% macro get_kinds() %}
    {{ return({
        'advance': {'follows': true, 'merges_changes': true, 'slice': 'insert', 'table': 'keep', 'positions': 'advance'},
        'fill': {'follows': true, 'merges_changes': true, 'slice': 'replace', 'table': 'keep', 'positions': 'keep'},
        'reanchor': {'follows': true, 'merges_changes': 'limited', 'slice': 'all', 'table': 'keep', 'positions': 'keep'},
        'sweep': {'follows': true, 'merges_changes': false, 'slice': none, 'table': 'keep', 'positions': 'reset'},
        'reset': {'follows': false, 'merges_changes': false, 'slice': none, 'table': 'empty', 'positions': 'reset'},
        'swap': {'follows': true, 'merges_changes': false, 'slice': none, 'table': 'swap', 'positions': 'finish'},
        'rescale': {'follows': false, 'merges_changes': false, 'slice': none, 'table': 'keep', 'positions': 'rescale'},
        'abandon': {'follows': false, 'merges_changes': false, 'slice': none, 'table': 'keep', 'positions': 'give_up'},
    }) }}
{% endmacro %}


{#- The record of a plan's kind. -#}
{% macro kind_of(plan) %}
    {{ return(dbt_backfill.get_kinds()[plan.kind]) }}
{% endmacro %}


{#- True if a plan may read a range or a window of the snapshot. -#}
{% macro kind_reads_range(plan) %}
    {{ return(dbt_backfill.kind_of(plan).slice in ['insert', 'replace']) }}
{% endmacro %}


{#- True if the MV is a new table after the barrier, whose query, key and number of vnodes may be others. -#}
{% macro replaces_mv(plan) %}
    {{ return(dbt_backfill.kind_of(plan).table != 'keep') }}
{% endmacro %}


{#- True if the plan has changes to merge: something was backfilled, and the version of what is followed moves. -#}
{% macro has_changes(state, plan) %}
    {%- set merges = dbt_backfill.kind_of(plan).merges_changes -%}
    {%- if not merges or merges == 'limited' and plan.get('touched') is none -%} {{ return(false) }} {%- endif -%}
    {%- set followed = 'feed' if dbt_backfill.get_source(plan, 'feed') else 'upstream' -%}
    {%- set since = dbt_backfill.get_source(dbt_backfill.get_feed_start(state), followed) or {} -%}
    {%- set moves = dbt_backfill.get_source(plan, followed).version != since.get('version') -%}
    {{ return(dbt_backfill.has_started(state) and moves and state.get('upstream_version') is not none) }}
{% endmacro %}


{#- True if the plan moves the position, or finishes vnodes, also where its rows were not counted yet. -#}
{% macro moves_position(plan) %}
    {{ return(plan.last_range or plan.get('range_high') != plan.get('range_low')) }}
{% endmacro %}


{#- The window of a fill, in the words of a range. The last one ends at the position of the MV, or is open above. -#}
{% macro get_fill_window(plan) %}
    {{ return({
        'range_low': plan.get('fill_low'), 'range_high': plan.get('fill_high'),
        'last_range': plan.get('last_fill') and plan.get('fill_high') is none,
        'vnodes': none, 'vnode_count': plan.vnode_count,
    }) }}
{% endmacro %}


{#- A select of the upstream's rows that a plan reads anew, whose keys are checked while it is planned; none if it reads none. -#}
{% macro get_checked_scan(backfill, state, plan) %}
    {%- set slice = dbt_backfill.kind_of(plan).slice -%}
    {%- set with_null_keys = not dbt_backfill.upstream_traits(backfill.upstream).enforces_keys -%}
    {%- if slice == 'insert' and dbt_backfill.moves_position(plan) -%}
        {{ return(dbt_backfill.get_range_scan_sql(
            dbt_backfill.get_range_read(backfill, plan), plan, state, backfill, plan.key, with_null_keys=with_null_keys
        )) }}
    {#- With a rate of 0 the second position does not move. -#}
    {%- elif slice == 'replace' and (plan.get('last_fill') or plan.get('fill_high') != plan.get('fill_low')) -%}
        {{ return(dbt_backfill.get_range_scan_sql(
            dbt_backfill.get_planned_read(backfill, plan), dbt_backfill.get_fill_window(plan), state, backfill, plan.key
        )) }}
    {%- elif slice == 'all' and plan.get('touched') is none -%}
        {{ return(dbt_backfill.get_prefix_scan_sql(
            dbt_backfill.get_planned_read(backfill, plan), state, backfill, plan.key, with_null_keys=with_null_keys
        )) }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#-
    What the commit of a barrier sets in the progress table, beside what every barrier sets (get_committed_columns): {column: SQL over a
    row of it, `progress`}. By the field `positions` of its kind:

      advance   the vnodes of the range move to its end, and finish with the last one; without a range only the version moves
      keep      only the version moves
      reset     no vnode has started
      finish    all have finished, with the rows that those of the next generation had
      rescale   a vnode that stays; the statement also adds and takes away some, see get_rescale_statement
      give_up   nothing moves; what the plan could write to is recorded for the re-anchor that follows
-#}
{% macro get_positions_columns(state, plan) %}
    {%- set does, columns = dbt_backfill.kind_of(plan).positions, {} -%}
    {%- set positions = dbt_backfill.position_columns(plan.key) -%}
    {%- if does == 'give_up' -%}
        {%- set given_up = dbt_backfill.add_given_up(state.committed, plan) -%}
        {{ return({
            'dirty': 'true',
            'last': dbt_backfill.get_last_column('"given_up":' ~ tojson(given_up) ~ ',' if given_up else ''),
        }) }}
    {%- elif does == 'rescale' -%}
        {%- for column in positions -%} {%- do columns.update({column: 'vnodes.__bf_position.' ~ column}) -%} {%- endfor -%}
        {{ return(dict(columns, backfill_finished='vnodes.__bf_finished', row_count='vnodes.__bf_row_count')) }}
    {%- endif -%}
    {%- do columns.update({'upstream_version': dbt_backfill.string_literal(dbt_backfill.get_source(plan).get('version'))}) -%}
    {%- set counts = dbt_backfill.string_literal(tojson(plan.get('vnode_row_counts') or {})) -%}
    {%- set counted = 'coalesce(from_json(' ~ counts ~ ", 'map<string, bigint>')[cast(progress.vnode as string)], 0)" -%}
    {%- if does in ['reset', 'finish'] -%}
        {%- for column in positions -%} {%- do columns.update({column: 'null'}) -%} {%- endfor -%}
        {%- do columns.update({
            'backfill_finished': 'true' if does == 'finish' else 'false', 'row_count': counted if does == 'finish' else '0',
        }) -%}
    {%- elif does == 'advance' and (plan.last_range or plan.get('range_row_count') is not none) -%}
        {%- set moves = 'true' if plan.get('vnodes') is none else 'progress.vnode in (' ~ plan.vnodes | join(', ') ~ ')' -%}
        {%- do columns.update({
            'backfill_finished': 'progress.backfill_finished or ' ~ moves if plan.last_range else 'progress.backfill_finished',
            'row_count': 'progress.row_count + ' ~ counted,
        }) -%}
        {#-
            Where positions differ, because only some vnodes were read before, the range begins at the lowest of them and may end
            below others, which stay where they are.
        -#}
        {%- set prefixed, passed = dbt_backfill.position_columns(plan.key, 'progress.'), moves -%}
        {%- if moves != 'true' and not plan.last_range -%}
            {%- set passed = moves ~ ' and (' ~ prefixed[0] ~ ' is null or '
                ~ dbt_backfill.ordered_predicate(plan.key, prefixed, '<', plan.range_high) ~ ')' -%}
        {%- endif -%}
        {%- for column in positions if not plan.last_range -%}
            {%- do columns.update({
                column: 'if(' ~ passed ~ ', ' ~ plan.range_high[loop.index0] ~ ', progress.' ~ column ~ ')',
            }) -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(columns) }}
{% endmacro %}
