{#-
    The kinds of barriers, one record each. What the steps and the commit do follows from these fields. Reports, and what is true of one
    kind alone, test `kind` itself. The plan of epoch 0 has the kind `create`, `adopt` or `replace`, which no barrier executes.

      follows          true if the barrier brings the MV to a version of the upstream; only such a barrier counts towards
                       `barriers_per_run`
      merges_changes   true if it merges what changed upstream up to the position; 'limited': only if its plan names what
                       plans that were given up could write to (`touched`, see find_touched_ranges)
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
