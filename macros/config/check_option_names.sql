{#-
    Refuse what is set for the model and means nothing: dbt itself ignores an option that it does not know, such as a
    misspelt one, and one that only other materializations read.

    What stands in the model's own config() is meant for it. The rest may be set for a whole folder of models, where dbt
    does not tell dbt_project.yml from a properties file: there only names that look like ours are refused, options of
    other materializations are warned of, and what dbt does not know is left to whom it is for.
-#}
{% macro check_option_names() %}
    {%- set options = dbt_backfill.get_config() -%}
    {%- set own = [
        'unique_key', 'upstream_key', 'backfill_rate_limit', 'barriers_per_run', 'backfill_mode', 'vnode_count',
        'backfill_vnodes', 'backfill_order', 'backfill_partitions', 'check_key', 'on_query_change', 'on_schema_change', 'on_gap', 'replace_existing',
        'full_refresh_mode', 'live_view', 'file_format', 'change_feed', 'run_minutes', 'run_rows', 'barrier_seconds',
        'take_turns', 'replicate', 'replica_rows', 'compact_every', 'sort_when_finished',
    ] -%}
    {%- for name in model.config.keys() | list + (options.get('meta') or {}).keys() | list -%}
        {%- if modules.re.match('(backfil|barrier|vnode|check_k|on_quer|on_gap|upstream_k|live_v|change_feed|run_(min|row)|take_t|replica|compact|sort_when)', name) and name not in own -%}
            {%- do dbt_backfill._refuse_option_name(name, own) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set of_the_model = model.get('config_call_dict') or {} -%}
    {%- set without_effect = dbt_backfill._options_without_effect() -%}
    {%- for name in of_the_model if options.get(name) is not none -%}
        {%- if name in without_effect and options.get(name) != 'ignore' -%}
            {%- do dbt_backfill.refuse(name ~ ' has no effect on it', without_effect[name]) -%}
        {%- elif name not in own + dbt_backfill._options_of_dbt() and name not in without_effect -%}
            {%- do dbt_backfill._refuse_option_name(name, own) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for name in model.get('unrendered_config') or {} if name in without_effect and name not in of_the_model -%}
        {%- if options.get(name) is not none and options.get(name) != 'ignore' -%}
            {%- do exceptions.warn('backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': ' ~ name ~ ' is set for it, and has no effect on it. '
                ~ without_effect[name] ~ '. To say that you know, set ' ~ name ~ '=none in the model.') -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{% macro _refuse_option_name(name, own) %}
    {%- do dbt_backfill.refuse(
        "there is no option '" ~ name ~ "'",
        'The options of a backfilled_mv are ' ~ own | join(', ') ~ ", and dbt's own. What something else reads belongs into meta"
    ) -%}
{% endmacro %}


{#- What dbt and dbt-spark do with a model of any materialization, or the clauses of our tables take up. -#}
{% macro _options_of_dbt() %}
    {{ return([
        'access', 'alias', 'contract', 'database', 'docs', 'enabled', 'event_time', 'freshness', 'full_refresh', 'grants',
        'group', 'materialized', 'meta', 'packages', 'persist_docs', 'post-hook', 'post_hook', 'pre-hook', 'pre_hook',
        'quoting', 'schema', 'static_analysis', 'tags',
        'buckets', 'clustered_by', 'location_root', 'partition_by', 'tblproperties',
    ]) }}
{% endmacro %}


{#- Options that a user may take to work here, with what to do instead. -#}
{% macro _options_without_effect() %}
    {%- set instead = {
        "Remove it: what happens when the query changes is said by on_query_change and on_schema_change": [
            'on_configuration_change',
        ],
        'Remove it: changes are always merged by unique_key, all columns of them': [
            'incremental_strategy', 'incremental_predicates', 'predicates', 'merge_exclude_columns', 'merge_update_columns',
            'merge_with_schema_evolution', 'matched_condition', 'not_matched_condition', 'not_matched_by_source_action',
            'not_matched_by_source_condition', 'skip_matched_step', 'skip_not_matched_step', 'delete_condition',
            'update_condition', 'insert_condition',
        ],
        'Remove it: what one barrier reads is said by backfill_rate_limit': [
            'batch_size', 'begin', 'lookback', 'concurrent_batches',
        ],
        'Set clustered_by, which is liquid clustering on Delta': ['cluster_by', 'liquid_clustered_by', 'auto_liquid_cluster'],
        'Set sort_when_finished: true, or sort the table between two barriers': ['zorder'],
        'Set tblproperties': ['options', 'table_properties'],
        "Set file_format to 'iceberg' or 'delta'; the catalog is the session's": ['table_format', 'catalog_name'],
        'Set a pre_hook, which runs in the same session': ['sql_header'],
        'Set a post_hook that alters the table': ['databricks_tags', 'row_filter'],
    } -%}
    {%- if this is not defined or this.database is none -%}
        {%- do instead.update({'Remove it: dbt-spark knows no database, and the catalog is that of the session': ['database']}) -%}
    {%- endif -%}
    {%- set options = {} -%}
    {%- for text, names in instead.items() -%}
        {%- for name in names -%} {%- do options.update({name: text}) -%} {%- endfor -%}
    {%- endfor -%}
    {{ return(options) }}
{% endmacro %}
