{#-
    Return what a run knows before it asks anything of Spark but where tables are, as a dict that all steps are given: {
      'mv', 'progress', 'barriers', 'controls', 'staged', 'replica', 'live': relations,
      'options': the configuration,
      'upstream': {'relation', 'kind'},
      'feed': the change table of the user's own, see get_change_table; none if the upstream's own feed is followed,
      'sql': the model's query, 'query': with the upstream substituted, 'query_hash',
      'started_at': when the run of the model began, for its budget of time,
      'controls_of': the id of the MV whose controls apply, if that is not its own: of a next generation; else none,
      'source': the range source of a barrier, if that is a copy which more plans read; else none, see get_planned_source,
      'partitions': the names of the columns by which the table of the MV is partitioned, as the run has found it, see read_partitions;
        none if the run makes it, as the config says,
      'generation': 'next' or 'former' while a full refresh is made beside the MV in use, see find_next_generation; else none
    }

    What Spark says is none of it: see new_observed, observe_upstream and new_learned.

    Outside of a run, `name` is that of the model, for messages.
-#}
{% macro get_backfill(mv, sql) %}
    {%- set options = dbt_backfill.read_config() -%}
    {%- set upstream = dbt_backfill.get_upstream(sql, options.change_feed) -%}
    {%- set feed = dbt_backfill.get_change_table(options.change_feed, upstream.relation, sql)
        if options.change_feed and not upstream.get('feed') else none -%}
    {%- set query = dbt_backfill.substitute_upstream(sql, upstream.relation) -%}
    {%- set relations = dbt_backfill.get_relations(mv) -%}
    {%- do dbt_backfill.check_state_names(relations, options) -%}
    {%- do dbt_backfill.check_options_of_upstream(upstream, feed, options) -%}
    {{ return(dict(
        relations, options=options, upstream=upstream, feed=feed, sql=sql, query=query, query_hash=dbt_backfill.query_hash(query),
        started_at=modules.datetime.datetime.now(), controls_of=none, source=none, partitions=none, generation=none,
    )) }}
{% endmacro %}


{#- Refuse options that an upstream of this kind, or with this feed, does not have. -#}
{% macro check_options_of_upstream(upstream, feed, options) %}
    {%- if dbt_backfill.upstream_traits(upstream).stages_ranges -%}
        {%- for needs, option in [(options.backfill_mode == 'snapshot', "backfill_mode 'snapshot'"), (options.live_view, 'live_view')] if needs -%}
            {%- do dbt_backfill.refuse(
                option ~ ' reads a version of its upstream again, and ' ~ upstream.relation.render() ~ ' is a live table, which keeps none',
                'Remove it; each barrier is exact without it'
            ) -%}
        {%- endfor -%}
    {%- elif options.backfill_partitions > 1 -%}
        {%- do dbt_backfill.refuse(
            'backfill_partitions is ' ~ options.backfill_partitions ~ ', and ' ~ upstream.relation.render()
                ~ ' is a table that Spark itself divides among its tasks',
            'Remove it; it says how many connections read a range of a live database'
        ) -%}
    {%- endif -%}
    {%- set reason = dbt_backfill.why_no_replica(upstream, feed, options) if options.replicate == 'always' else none -%}
    {%- if reason -%}
        {%- do dbt_backfill.refuse(
            "replicate is 'always', and " ~ reason,
            'Remove it: a table can be replicated that tells its own changes, has the format of the MV, and whose keys are checked'
        ) -%}
    {%- endif -%}
{% endmacro %}


{#-
    Refuse an MV beside which another node of the project makes a table with the name of its state or history, of its live view,
    or of its next generation: dbt would replace the one by the other, or take it for its own.
-#}
{% macro check_state_names(relations, options) %}
    {%- set next = dbt_backfill.get_next_relations(relations.mv).values() | list if options.full_refresh_mode == 'beside' else [] -%}
    {%- set own = [] -%}
    {%- for name in dbt_backfill.companion_names() + (['live'] if options.get('live_view') else []) -%}
        {%- do own.append(relations[name]) -%}
    {%- endfor -%}
    {%- for relation in own + next -%}
        {%- set node = dbt_backfill.find_maker(relation) -%}
        {%- if node is not none -%}
            {%- do dbt_backfill.refuse(
                relation.render() ~ ' is where ' ~ ('its next generation stands' if loop.index > own | length
                    else 'its live view stands' if relation == relations.live else 'its state stands')
                    ~ ', and the ' ~ node.resource_type ~ ' ' ~ dbt_backfill.get_model_name(node) ~ ' makes a table there',
                'Give one of the two another alias'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
