{#-
    The script. Its result: {
      'plan': the one that stands, absent if the checks failed,
      'settings': the session's, of a first run, which has not read a state; see session_settings,
      'lost': whether the changes are gone, see get_staging_statements; `staged` is then absent, and no plan is made,
      'copy_is_gone': whether a table is, where one of them is a replica; then absent is all else,
      'staged', 'reread': see get_stage, absent if the plan has no changes, or no key that is to be read again,
      'overlaid': see get_overlay, absent if there is none, or the changes are gone,
      'checked': see get_key_check_sql, absent if the plan reads no keys
    }
-#}
{% macro get_plan_script(backfill, state, attempt, columns=none) -%}
    {%- set plan, changes = attempt.plan, attempt.changes -%}
    {%- set stage = dbt_backfill.get_stage(backfill, state, plan, changes, backfill.options.check_key) if changes else none -%}
    {%- set scan = dbt_backfill.get_checked_scan(backfill, state, plan) -%}
    {%- set overlay = attempt.overlay -%}
    {%- set counted = dbt_backfill.get_counted_plan(
        plan, counted=scan is not none, staged=stage is not none, overlaid=overlay is not none
    ) -%}
    {%- set known = (['staged', 'reread', 'merged'] if stage else []) + (['overlaid'] if overlay else []) + (['checked'] if scan else []) -%}
    {%- set handler = dbt_backfill.upstream_traits(backfill.feed or backfill.upstream).lost_conditions if stage else none -%}
    begin
        {%- if handler %}
        declare lost boolean default false;
        {%- endif %}
        {%- for declaration in (((stage or {}).declarations or []) + ((overlay or {}).declarations or [])) | unique %}
        {{ declaration }};
        {%- endfor %}
        {%- if scan %}
        declare checked {{ dbt_backfill.key_check_type() }};
        {%- endif %}
        {%- if state.get('missing') %}
        {{ dbt_backfill.declare_creation() }}
        {%- else %}
        declare planned string;
        {%- endif %}
        {%- if attempt.read_from %}
        declare exit handler for sqlstate '42P01' begin select to_json(named_struct('copy_is_gone', true)); end;
        {%- endif %}
        {%- if stage %}
        {{ dbt_backfill.get_staging_statements(stage.statements, handler, 'set lost = true') }}
        {%- endif %}
        {%- if overlay %}
        {{ dbt_backfill.get_staging_statements(overlay.statements, dbt_backfill.upstream_traits(backfill.upstream).lost_conditions, 'set overlaid = null') }}
        if overlaid.doubtful = 0 then
        {%- endif %}
        {%- if scan %}
        set checked = ({{ dbt_backfill._get_attempt_check_sql(backfill, attempt, scan) }});
        {%- endif %}
        {%- if overlay %}
        end if;
        {%- endif %}
        if {{ dbt_backfill._get_attempt_condition(attempt, known) }} then
            {{ dbt_backfill._get_storing_statements(backfill, state, counted, known, columns) }}
        else
            select to_json(struct({{ ((['lost'] if handler else []) + known) | join(', ') }}));
        end if;
    end
{%- endmacro %}


{#- What its variable `checked` is set to, over the rows that the plan reads anew. -#}
{% macro _get_attempt_check_sql(backfill, attempt, scan) -%}
    {%- set plan = attempt.plan -%}
    {%- set total = 'coalesce(' ~ dbt_backfill.ask(backfill.upstream, 'row_count_sql')(backfill.upstream, dbt_backfill.get_source(plan).version) ~ ', '
        ~ (plan.get('upstream_row_count') or 0) ~ ')' -%}
    {%- set check_key = backfill.options.check_key and not attempt.keys_are_unique and not dbt_backfill.upstream_traits(backfill.upstream).enforces_keys -%}
    {{ dbt_backfill.get_key_check_sql(scan, total, plan.key, plan.vnode_count, check_key, dbt_backfill.reads_many(plan)) }}
{%- endmacro %}


{#- Whether the plan may be stored, over those of its variables that it has (`known`). -#}
{% macro _get_attempt_condition(attempt, known) %}
    {%- set conditions = ['true'] -%}
    {%- if 'staged' in known -%}
        {%- do conditions.append('staged.null_keys = 0 and coalesce(size(reread.twice), 0) <= 0') -%}
    {%- endif -%}
    {%- if 'overlaid' in known -%} {%- do conditions.append('overlaid.doubtful = 0') -%} {%- endif -%}
    {%- if 'checked' in known -%}
        {%- do conditions.append('checked.null_keys = 0 and not checked.duplicates') -%}
        {%- if attempt.most_rows -%} {%- do conditions.append('checked.row_count <= ' ~ attempt.most_rows) -%} {%- endif -%}
    {%- endif -%}
    {{ return(conditions | join(' and ')) }}
{% endmacro %}


{#- The statements that store it, and tell what stands then. -#}
{% macro _get_storing_statements(backfill, state, plan, known, columns) -%}
    {%- if state.get('missing') -%}
    {{ dbt_backfill.get_create_statements(backfill, state.committed, columns, plan) }}
    select concat(
        '{"settings":', to_json({{ dbt_backfill.settings_expression() }}),
        {%- if 'checked' in known %} ',"checked":', to_json(checked),{% endif %} ',"plan":', coalesce(standing, 'null'), '}'
    );
    {%- else -%}
    {{ dbt_backfill.get_store_plan_statements(backfill, plan) }}
    {{ dbt_backfill.get_standing_plan_sql(backfill, plan.epoch, known) }};
    {%- endif -%}
{%- endmacro %}


{#-
    The part of the script that stages the changes. What is gone shows only now: a VACUUM need not stand in the log, nor
    every change of the columns. It shows in a statement of its own, such as CACHE TABLE: an error in a query that sets a
    variable has no condition any more, and no handler takes it.

    Arguments:
      handler (string or none): the conditions by which that shows, see get_lost_conditions.
      then (string): what is done where it does.
-#}
{% macro get_staging_statements(statements, handler, then) -%}
    {%- if handler -%}
        begin
            declare exit handler for {{ handler }} begin {{ then }}; end;
        {% endif -%}
        {{ statements | join(';\n        ') }};
    {%- if handler %}
        end;
    {%- endif -%}
{%- endmacro %}


{#-
    Statements of a script that store a plan, if nothing is planned in its epoch yet. Two runs cannot both do that; of
    two at once the second finds that of the first.
-#}
{% macro get_store_plan_statements(backfill, plan) -%}
    set planned = ({{ 'select ' ~ dbt_backfill.get_plan_json_sql(plan) }});
    {% set sql -%}
        update {{ backfill.progress.render() }}
        set plan_id = {{ dbt_backfill.string_literal(plan.plan_id) }}, plan_kind = {{ dbt_backfill.string_literal(plan.kind) }},
            plan = if(vnode = 0, __bf_planned__, null)
        where epoch = {{ plan.epoch - 1 }} and plan_id is null
    {%- endset -%}
    {{ dbt_backfill.get_guarded_update_sql(
        backfill, sql, {'__bf_planned__': dbt_backfill.literal_expression('planned', 'string')}
    ) }}
{%- endmacro %}
