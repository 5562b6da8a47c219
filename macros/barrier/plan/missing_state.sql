{#-
    The state of an MV that is about to be created: the epoch 0, at which no vnode has started. A session in which it should
    not be is refused; `settings` are the session's, see read_settings.
-#}
{% macro get_missing_state(backfill, settings) %}
    {%- do dbt_backfill.check_catalog_cache(backfill, settings) -%}
    {%- do dbt_backfill.check_settings(backfill, settings) -%}
    {%- do dbt_backfill.check_idempotent_writes(backfill, settings) -%}
    {%- do dbt_backfill.check_table_overrides(backfill, settings) -%}
    {%- do dbt_backfill.explain_backfill(backfill) -%}
    {%- do dbt_backfill.check_key_order(backfill) -%}
    {%- set id = local_md5(invocation_id ~ model.unique_id ~ modules.datetime.datetime.now()) -%}
    {%- set plan = dict(
        dbt_backfill.new_plan(backfill, {'epoch': -1, 'committed': {'backfill_id': id}}, 'create'),
        next_bounds=[], bounds_complete=false,
    ) -%}
    {{ return({
        'missing': true, 'epoch': 0, 'committed': plan, 'uniform': true,
        'finished': false, 'any_finished': false, 'dirty': false, 'row_count': 0, 'written': none,
    }) }}
{% endmacro %}
