{#-
    The model's configuration, checked: names that mean nothing and values of the wrong type are refused. Returns a dict
    with one entry per option of the README's table.
-#}
{% macro read_config() %}
    {%- do dbt_backfill.check_option_names() -%}
    {%- set options = {
        'unique_key': dbt_backfill.read_columns('unique_key', required=true),
        'upstream_key': dbt_backfill.read_columns('upstream_key'),
        'backfill_rate_limit': dbt_backfill.read_integer('backfill_rate_limit', 0),
        'barriers_per_run': dbt_backfill.read_barriers_per_run(),
        'backfill_mode': dbt_backfill.read_choice(
            'backfill_mode', ['arrangement', 'no_shuffle', 'snapshot']
        ),
        'backfill_order': dbt_backfill.read_choice('backfill_order', ['ascending', 'descending']),
        'backfill_partitions': dbt_backfill.read_integer('backfill_partitions', 1, 1024, default=1),
        'replicate': dbt_backfill.read_choice('replicate', ['auto', 'always', 'never']),
        'replica_rows': dbt_backfill.read_integer('replica_rows', 1),
        'compact_every': dbt_backfill.read_integer('compact_every', 1),
        'sort_when_finished': dbt_backfill.read_boolean('sort_when_finished', false),
        'vnode_count': dbt_backfill.read_integer('vnode_count', 1, 32768, default=256),
        'backfill_vnodes': dbt_backfill.read_vnodes(),
        'check_key': dbt_backfill.read_boolean('check_key', true),
        'on_query_change': dbt_backfill.read_choice('on_query_change', ['fail', 'rebuild']),
        'on_schema_change': dbt_backfill.read_choice('on_schema_change', ['ignore', 'fail', 'append_new_columns', 'sync_all_columns']),
        'on_gap': dbt_backfill.read_choice('on_gap', ['reanchor', 'sweep', 'fail']),
        'full_refresh_mode': dbt_backfill.read_choice('full_refresh_mode', ['in_place', 'beside']),
        'replace_existing': dbt_backfill.read_boolean('replace_existing', false),
        'live_view': dbt_backfill.read_boolean('live_view', false),
        'file_format': dbt_backfill.get_file_format(),
        'change_feed': dbt_backfill.read_change_feed(),
        'run_minutes': dbt_backfill.read_number('run_minutes'),
        'run_rows': dbt_backfill.read_integer('run_rows', 1),
        'barrier_seconds': dbt_backfill.read_number('barrier_seconds'),
        'take_turns': dbt_backfill.read_boolean('take_turns', false),
    } -%}
    {%- do dbt_backfill._check_options_agree(options) -%}
    {%- do dbt_backfill._warn_of_endless_refresh() -%}
    {%- if env_var('DBT_BACKFILL_TURNS', '') == '1' -%}
        {{ return(dict(options, barriers_per_run=1, run_minutes=none, run_rows=none)) }}
    {%- endif -%}
    {%- if options.take_turns -%} {%- do dbt_backfill._warn_of_no_turns() -%} {%- endif -%}
    {{ return(options) }}
{% endmacro %}


{#-
    `dbt-backfill run --turns` makes a run of one barrier per model, again and again, and says so in the environment: a var would
    have dbt parse the project anew.
-#}
{% macro _warn_of_no_turns() %}
    {%- set why = "only the adapter (type: spark_backfill) lets models take turns, so that barriers of several threads go on side by side"
        if adapter.type() != 'spark_backfill'
        else 'dbt runs with one thread, which ends a model before it begins the next one' if target.threads | int < 2 else none -%}
    {%- if why -%}
        {%- do exceptions.warn('backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': take_turns is set for it, and ' ~ why
            ~ '. dbt-backfill run --turns takes turns all the same.') -%}
    {%- endif -%}
{% endmacro %}


{#- The option is meant to keep `--full-refresh` away; true does the opposite, at every run. -#}
{% macro _warn_of_endless_refresh() %}
    {%- if dbt_backfill.get_config().get('full_refresh') is true -%}
        {%- do exceptions.warn('backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': full_refresh is true for it, so that every run '
            ~ 'empties it and begins anew. To rebuild it once, leave the option out and run with --full-refresh.') -%}
    {%- endif -%}
{% endmacro %}


{% macro _check_options_agree(options) %}
    {%- if options.upstream_key and options.upstream_key | length != options.unique_key | length -%}
        {%- do dbt_backfill.refuse(
            'upstream_key has ' ~ options.upstream_key | length ~ ' columns and unique_key '
                ~ options.unique_key | length,
            'Name, for each column of unique_key, the column of the upstream that it carries, in the same order'
        ) -%}
    {%- endif -%}
    {%- if options.backfill_vnodes is not none and options.backfill_mode != 'arrangement' -%}
        {%- do dbt_backfill.refuse(
            "backfill_vnodes needs a position per vnode, which backfill_mode '" ~ options.backfill_mode ~ "' does not keep",
            "Remove backfill_vnodes, or set backfill_mode to 'arrangement'"
        ) -%}
    {%- endif -%}
    {%- for vnode in options.backfill_vnodes or [] -%}
        {%- if vnode >= options.vnode_count -%}
            {%- do dbt_backfill.refuse(
                'backfill_vnodes names vnode ' ~ vnode ~ ', and vnode_count is ' ~ options.vnode_count,
                'Vnodes are numbered from 0 to ' ~ (options.vnode_count - 1)
            ) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
