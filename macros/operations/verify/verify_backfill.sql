{#-
    Compare an MV with its definition, Q(upstream @ S where pk <= current_pos), and name the keys that differ; with
    `repair: true`, merge the difference, and nothing else. Fails if keys differ and are not repaired.

    Usage:
      dbt run-operation verify_backfill --args '{model: my_mv}'
      dbt run-operation verify_backfill --args '{model: my_mv, vnodes: [3, 7]}'
      dbt run-operation verify_backfill --args '{model: my_mv, key_from: [10, a], key_to: [20], repair: true}'

    Arguments:
      model (string): the model's name, or `package.name`; of one with versions `name.v2`.
      vnodes (list of integers): only the keys of these vnodes.
      key_from, key_to (list, or one value): only the keys from here to there, both inclusive, in the order of the key.
        Values are written as Spark casts them from text, binary ones in hex. Fewer values than the key has columns mean
        all keys that begin with them.
      sample (integer): how many of the keys that differ are shown.
      repair (boolean): whether the difference is merged.
-#}
{% macro verify_backfill(model=none, vnodes=none, key_from=none, key_to=none, sample=10, repair=false) %}
    {%- set node = dbt_backfill.find_backfilled_mv(model, 'verify_backfill') -%}
    {%- set given = {'vnodes': vnodes, 'key_from': key_from, 'key_to': key_to, 'sample': sample, 'repair': repair} -%}
    {%- do dbt_backfill.check_verify_arguments(dbt_backfill.get_model_name(node), given, kwargs) -%}
    {%- set verified = dbt_backfill.observe_verified(node) -%}
    {%- set selection = dbt_backfill.read_selection(verified, given) -%}
    {%- set defined = dbt_backfill.stage_definition(verified, verified.state) -%}
    {%- do dbt_backfill.report_unsettled(verified, defined.unsettled) -%}
    {%- set verified, selection = dict(verified, state=defined.state), dict(selection, unsettled=defined.unsettled) -%}
    {%- set found = dbt_backfill.run_comparison(verified, selection) -%}
    {%- if not found.differing -%}
        {%- do dbt_backfill.drop_stages([found.stage], verified.mv) -%}
        {%- do log(dbt_backfill.get_compared_text(verified, found, given) ~ ', all equal', info=true) -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set narrowed = dbt_backfill.narrow_selection(selection, found) -%}
    {%- set kinds = dbt_backfill.read_differences(verified, narrowed, found, sample) -%}
    {%- do dbt_backfill.report_differences(verified, found, kinds, dbt_backfill.get_compared_text(verified, found, given), sample) -%}
    {%- if not repair -%}
        {%- do dbt_backfill.drop_stages([found.stage], verified.mv) -%}
        {%- do dbt_backfill.refuse(
            dbt_backfill.get_count_text(found.differing, 'key') ~ ' of ' ~ verified.mv.render()
                ~ (' differs' if found.differing == 1 else ' differ') ~ ' from what its definition gives ('
                ~ dbt_backfill.get_kinds_text(kinds) ~ ')',
            'Find out what wrote to the table, and merge the difference with the argument repair: true',
            mv=verified.name
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill.run_repair(verified, narrowed, found) -%}
    {%- do dbt_backfill.drop_stages([found.stage], verified.mv) -%}
    {%- set again = dbt_backfill.run_comparison(verified, narrowed, repaired=true) -%}
    {%- do dbt_backfill.drop_stages([again.stage], verified.mv) -%}
    {%- do dbt_backfill.report_repair(verified, found, kinds, again) -%}
{% endmacro %}
