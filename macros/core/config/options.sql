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


{#- One option of the model: from its config, or from config.meta where an engine warns of unknown names. -#}
{% macro read_option(name) %}
    {%- set options = dbt_backfill.get_config() -%}
    {{ return(options.get(name, (options.get('meta') or {}).get(name))) }}
{% endmacro %}


{#- The config of the model: of one that a run-operation speaks for, see speak_for, as the graph has it. -#}
{% macro get_config() %}
    {%- if invocation_args_dict.get('which') == 'run-operation' and model.get('resource_type') == 'model' -%} {{ return(model.config) }} {%- endif -%}
    {{ return(config) }}
{% endmacro %}


{% macro refuse_option(name, value, expected) %}
    {%- do dbt_backfill.refuse(name ~ ' is ' ~ tojson(value, value | string), 'Set it to ' ~ expected) -%}
{% endmacro %}


{% macro read_integer(name, least, most=none, default=none) %}
    {%- set value = dbt_backfill.read_option(name) -%}
    {%- if value is none -%} {{ return(default) }} {%- endif -%}
    {%- if value is not integer or value < least or (most is not none and value > most) -%}
        {%- do dbt_backfill.refuse_option(
            name, value,
            'a whole number of ' ~ least ~ (' to ' ~ most if most is not none else ' or more')
                ~ (', or leave it out' if default is none else '')
        ) -%}
    {%- endif -%}
    {{ return(value) }}
{% endmacro %}


{% macro read_boolean(name, default) %}
    {%- set value = dbt_backfill.read_option(name) -%}
    {%- if value is none -%} {{ return(default) }} {%- endif -%}
    {%- if value is not boolean -%}
        {%- do dbt_backfill.refuse_option(name, value, 'true or false') -%}
    {%- endif -%}
    {{ return(value) }}
{% endmacro %}


{#- One of `choices`, of which the first is the default. -#}
{% macro read_choice(name, choices) %}
    {%- set value = dbt_backfill.read_option(name) -%}
    {%- if value is none -%} {{ return(choices[0]) }} {%- endif -%}
    {%- if value not in choices -%}
        {%- do dbt_backfill.refuse_option(name, value, choices | join(' or ')) -%}
    {%- endif -%}
    {{ return(value) }}
{% endmacro %}


{#- A column or a list of columns, always as a list; none if the option is not given. -#}
{% macro read_columns(name, required=false) %}
    {%- set value = dbt_backfill.read_option(name) -%}
    {%- if value is string and value -%} {%- set value = [value] -%} {%- endif -%}
    {%- if not value and required -%}
        {%- do dbt_backfill.refuse(
            name ~ ' is missing',
            "Name the model's columns that carry the primary key of the upstream, such as unique_key=['id']"
        ) -%}
    {%- elif value is none -%}
        {{ return(none) }}
    {%- elif value is string or value is mapping or value is not iterable or not value
            or value | reject('string') | list or value | unique | list | length != value | length -%}
        {%- do dbt_backfill.refuse_option(name, value, 'a column or a list of different columns') -%}
    {%- endif -%}
    {{ return(value | list) }}
{% endmacro %}


{#- A number above 0, whole or not; none if the option is not given. -#}
{% macro read_number(name) %}
    {%- set value = dbt_backfill.read_option(name) -%}
    {%- if value is none -%} {{ return(none) }} {%- endif -%}
    {%- if value is not number or value is boolean or value <= 0 -%}
        {%- do dbt_backfill.refuse_option(name, value, 'a number above 0, or leave it out') -%}
    {%- endif -%}
    {{ return(value) }}
{% endmacro %}


{#- The number of barriers of one run; none for `all`, as by default where a budget ends the run. -#}
{% macro read_barriers_per_run() %}
    {%- set value = dbt_backfill.read_option('barriers_per_run') -%}
    {%- if value is none -%}
        {%- set has_budget = dbt_backfill.read_option('run_minutes') is not none or dbt_backfill.read_option('run_rows') is not none -%}
        {{ return(none if has_budget else 1) }}
    {%- endif -%}
    {%- if value == 'all' -%} {{ return(none) }} {%- endif -%}
    {%- if value is not integer or value < 1 -%}
        {%- do dbt_backfill.refuse_option('barriers_per_run', value, "a whole number of 1 or more, or 'all'") -%}
    {%- endif -%}
    {{ return(value) }}
{% endmacro %}


{#- The vnodes whose ranges are read, ascending; none for all of them. As text such as `0-15,32`, or as a list. -#}
{% macro read_vnodes() %}
    {%- set value = dbt_backfill.read_option('backfill_vnodes') -%}
    {%- if value is none -%} {{ return(none) }} {%- endif -%}
    {%- set vnodes = dbt_backfill._parse_vnodes(value) if value is string else value -%}
    {%- if vnodes is mapping or vnodes is not iterable or not vnodes
            or vnodes | reject('integer') | list or vnodes | select('lt', 0) | list -%}
        {%- do dbt_backfill.refuse_option(
            'backfill_vnodes', value, "a list of vnode numbers, or text such as '0-15,32', or leave it out"
        ) -%}
    {%- endif -%}
    {{ return(vnodes | unique | sort) }}
{% endmacro %}


{#- The numbers of a text such as `0-15,32`; [] of any other. -#}
{% macro _parse_vnodes(text) %}
    {%- set vnodes = [] -%}
    {%- for part in text.split(',') -%}
        {%- set ends = modules.re.fullmatch('\\s*([0-9]{1,5})\\s*(?:-\\s*([0-9]{1,5})\\s*)?', part) -%}
        {%- if not ends or (ends.group(2) or ends.group(1)) | int < ends.group(1) | int -%} {{ return([]) }} {%- endif -%}
        {%- do vnodes.extend(range(ends.group(1) | int, (ends.group(2) or ends.group(1)) | int + 1)) -%}
    {%- endfor -%}
    {{ return(vnodes) }}
{% endmacro %}


{% macro get_file_format() %}
    {{ return(dbt_backfill.read_choice('file_format', ['delta', 'iceberg'])) }}
{% endmacro %}


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
