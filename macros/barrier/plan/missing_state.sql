{#- The state of an MV that is about to be created: the epoch 0, at which no vnode has started. -#}
{% macro get_missing_state(backfill, learned) %}
    {%- set id = local_md5(invocation_id ~ model.unique_id ~ modules.datetime.datetime.now()) -%}
    {%- set plan = dict(
        dbt_backfill.new_plan(backfill, {'epoch': -1, 'committed': {'backfill_id': id}}, learned, 'create'),
        next_bounds=[], bounds_complete=false,
    ) -%}
    {{ return({
        'missing': true, 'epoch': 0, 'committed': plan, 'uniform': true,
        'finished': false, 'any_finished': false, 'dirty': false, 'row_count': 0, 'written': none,
    }) }}
{% endmacro %}
