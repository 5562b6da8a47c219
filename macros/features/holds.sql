{#-
    Ask the upstream to hold the version that a barrier reads, if this barrier is the first in the mode `snapshot` that reads the version. Return true
    if the upstream was asked: then the barrier has no version to release, because holding a version releases the previously held one.

    In the mode `snapshot`, all barriers read one version until the backfill, or a sweep, has finished. The first barrier that reads a newer version
    or has another mode releases the held version. Each run asks the upstream which version is held, so it also releases the version of a dead run.
-#}
{% macro hold_upstream(backfill, state, plan) %}
    {%- set source = dbt_backfill.get_source(plan) -%}
    {%- if dbt_backfill.upstream_traits(backfill.upstream).holds_versions and dbt_backfill.kind_of(plan).follows
            and (not state.finished or plan.kind == 'sweep') and not plan.last_range
            and [source.version, plan.backfill_mode] != [state.get('upstream_version'), state.committed.get('backfill_mode')] -%}
        {{ return(dbt_backfill.ask(backfill.upstream, 'hold')(source, 'dbt_backfill_' ~ plan.backfill_id)) }}
    {%- endif -%}
    {{ return(false) }}
{% endmacro %}


{#- Release the held version if the last committed plan does not read this version any more, see hold_upstream. -#}
{% macro release_upstream(backfill, observed, plan) %}
    {%- set source, name = dbt_backfill.get_source(plan), 'dbt_backfill_' ~ plan.backfill_id -%}
    {%- set held = dbt_backfill.ask(backfill.upstream, 'held_version')(observed, name) -%}
    {%- if held is not none and not (plan.backfill_mode == 'snapshot' and source.get('version') == held) -%}
        {%- do dbt_backfill.ask(backfill.upstream, 'release')(source, name) -%}
    {%- endif -%}
{% endmacro %}


{#- Return the tags that hold a version for this MV, see hold_upstream: a list of {'upstream', 'source', 'name'}. -#}
{% macro find_tags(state) %}
    {%- set tags = {} -%}
    {%- for plan in [(state or {}).get('committed'), (state or {}).get('planned')]
            if plan and dbt_backfill.get_source(plan) is not none -%}
        {%- set source, name = dbt_backfill.get_source(plan), 'dbt_backfill_' ~ plan.backfill_id -%}
        {%- set upstream = dbt_backfill.get_upstream_of_plan(plan) -%}
        {%- if dbt_backfill.upstream_traits(upstream).holds_versions and source.relation not in tags
                and dbt_backfill.exists_as_its_kind(upstream) -%}
            {%- set observed = dbt_backfill.ask(upstream, 'read_upstream')(upstream, source) -%}
            {%- if dbt_backfill.ask(upstream, 'held_version')(observed, name) is not none -%}
                {%- do tags.update({source.relation: {'upstream': upstream, 'source': source, 'name': name}}) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(tags.values() | list) }}
{% endmacro %}


{#- Release these tags. `dropped`: the MV that is being dropped, with its 'name'. -#}
{% macro run_release(dropped, tags) %}
    {%- for tag in tags -%}
        {%- do dbt_backfill.ask(tag.upstream, 'release')(tag.source, tag.name) -%}
        {%- do log(dropped.name ~ ': dropped the tag ' ~ tag.name ~ ' of ' ~ tag.source.relation, info=true) -%}
    {%- endfor -%}
{% endmacro %}


{#- Drop the staged rows if no rows are left to read. `plan`: the plan of the run's last barrier, if there is one. -#}
{% macro release_staged(backfill, state, plan) %}
    {%- if dbt_backfill.is_complete(state) and not state.get('planned') and (dbt_backfill.get_source(plan, 'stage')
            or dbt_backfill.load_table(backfill.staged) is not none) -%}
        {#- The staged rows that a plan names may no longer exist, or may belong to a next generation. -#}
        {%- set properties = dbt_backfill.find_own_copy(backfill.staged) -%}
        {%- if properties is not none -%}
            {%- set sql = dbt_backfill.get_drop_copy_sql(backfill.options.file_format, backfill.staged, properties) -%}
            {%- do dbt_backfill.run_table('drop the staged rows', sql) -%}
            {%- do adapter.cache_dropped(backfill.staged) -%}
        {%- endif -%}
    {%- endif -%}
{% endmacro %}
