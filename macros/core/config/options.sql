{#-
    Return the options of a model. The macros that read options and check their names use this list. `python -m support.options` writes the tables of
    docs/configuration.md from this list, and a test compares the adapter's typed config with it:

      type      'columns', a column or a list of different columns; 'integer'; 'number', above 0; 'boolean'; 'choice'; 'barriers', a number or
                `all`; 'vnodes', see _parse_vnodes; 'change_feed', see read_change_feed
      least, most  bounds of an integer
      choices   the values of a choice; the first one is the default
      default   the default value; none if absent
-#}
{% macro get_options() %}
    {{ return({
        'unique_key': {'type': 'columns'},
        'upstream_key': {'type': 'columns'},
        'volatile_columns': {'type': 'columns'},
        'backfill_rate_limit': {'type': 'integer', 'least': 0},
        'barriers_per_run': {'type': 'barriers'},
        'backfill_mode': {'type': 'choice', 'choices': ['arrangement', 'no_shuffle', 'snapshot']},
        'vnode_count': {'type': 'integer', 'least': 1, 'most': 32768, 'default': 256},
        'backfill_vnodes': {'type': 'vnodes'},
        'backfill_order': {'type': 'choice', 'choices': ['ascending', 'descending']},
        'backfill_partitions': {'type': 'integer', 'least': 1, 'most': 1024, 'default': 1},
        'check_key': {'type': 'boolean', 'default': true},
        'on_query_change': {'type': 'choice', 'choices': ['fail', 'rebuild']},
        'on_schema_change': {'type': 'choice', 'choices': ['ignore', 'fail', 'append_new_columns', 'sync_all_columns']},
        'on_gap': {'type': 'choice', 'choices': ['reanchor', 'sweep', 'fail']},
        'on_foreign_write': {'type': 'choice', 'choices': ['reanchor', 'sweep', 'fail']},
        'replace_existing': {'type': 'boolean', 'default': false},
        'full_refresh_mode': {'type': 'choice', 'choices': ['in_place', 'beside']},
        'live_view': {'type': 'boolean', 'default': false},
        'file_format': {'type': 'choice', 'choices': ['delta', 'iceberg']},
        'change_feed': {'type': 'change_feed'},
        'run_minutes': {'type': 'number'},
        'run_rows': {'type': 'integer', 'least': 1},
        'barrier_seconds': {'type': 'number'},
        'take_turns': {'type': 'boolean', 'default': false},
        'replicate': {'type': 'choice', 'choices': ['auto', 'always', 'never']},
        'replica_rows': {'type': 'integer', 'least': 1},
        'compact_every': {'type': 'integer', 'least': 1},
        'sort_when_finished': {'type': 'boolean', 'default': false},
    }) }}
{% endmacro %}


{#- Return the model's configuration, one entry per option. Refuse all unknown names, wrong values and contradictions in one message. -#}
{% macro read_config() %}
    {%- set options, mistakes = {}, dbt_backfill.find_unknown_options() -%}
    {%- for name, option in dbt_backfill.get_options().items() if option.type != 'change_feed' -%}
        {%- set value = dbt_backfill.read_option(name) -%}
        {%- set read = dbt_backfill.read_value(option, value) -%}
        {%- do options.update({name: read.value}) -%}
        {%- if name == 'unique_key' and not value -%}
            {%- do mistakes.append({
                'id': 'unique-key-missing', 'fact': 'unique_key is missing',
                'change': "Name the model's columns that carry the primary key of the upstream, such as unique_key=['id']",
            }) -%}
        {%- elif read.expected -%}
            {%- do mistakes.append(
                {'id': 'option-value', 'fact': name ~ ' is ' ~ tojson(value, value | string), 'change': 'Set it to ' ~ read.expected}
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if dbt_backfill.read_option('barriers_per_run') is none -%}
        {%- do options.update({'barriers_per_run': none if options.run_minutes or options.run_rows else 1}) -%}
    {%- endif -%}
    {%- if not mistakes -%}
        {%- set keys, upstream_keys, vnodes = options.unique_key, options.upstream_key, options.backfill_vnodes -%}
        {%- set volatile_keys = (options.volatile_columns or []) | map('lower') | select('in', keys | map('lower') | list) | list -%}
        {%- set too_high = (vnodes or []) | select('ge', options.vnode_count) | list -%}
        {%- set mistakes = [
            {'id': 'upstream-key-length', 'when': upstream_keys and upstream_keys | length != keys | length,
             'fact': 'upstream_key has ' ~ (upstream_keys or []) | length ~ ' columns, but unique_key has ' ~ keys | length,
             'change': 'Name, for each column of unique_key, the column of the upstream that it carries, in the same order'},
            {'when': volatile_keys, 'fact': "volatile_columns contains '" ~ volatile_keys | join("', '") ~ "', which unique_key contains as well",
             'id': 'volatile-key', 'change': 'Remove it from volatile_columns: a key must have the same value in each run'},
            {'id': 'vnodes-without-positions', 'when': vnodes is not none and options.backfill_mode != 'arrangement',
             'fact': "backfill_vnodes needs a position per vnode, but backfill_mode '" ~ options.backfill_mode ~ "' does not keep these positions",
             'change': "Remove backfill_vnodes, or set backfill_mode to 'arrangement'"},
            {'id': 'vnode-above-count', 'when': too_high,
             'fact': 'the option backfill_vnodes contains vnode ' ~ too_high[:1] | join ~ ', but vnode_count is ' ~ options.vnode_count,
             'change': 'Use vnode numbers from 0 to ' ~ (options.vnode_count - 1)},
        ] | selectattr('when') | list -%}
    {%- endif -%}
    {%- if mistakes -%}
        {%- set texts = [] -%}
        {%- for mistake in mistakes -%} {%- do texts.append(mistake.fact ~ '. ' ~ mistake.change) -%} {%- endfor -%}
        {%- do dbt_backfill.refuse((texts[:-1] + [mistakes[-1].fact]) | join('. '), mistakes[-1].change, id=mistakes[0].id) -%}
    {%- endif -%}
    {%- set feed = dbt_backfill.read_option('change_feed') -%}
    {%- do options.update({'change_feed': none if feed is none else dbt_backfill.read_change_feed(feed)}) -%}
    {#- Users may set `full_refresh` to prevent a full refresh. But its value `true` does the opposite: it requests a full refresh at every run. -#}
    {%- if dbt_backfill.get_config().get('full_refresh') is true -%}
        {%- do exceptions.warn('backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': full_refresh is true for this model, so every run '
            ~ 'empties the MV and starts again. To rebuild the MV once, remove the option and run with --full-refresh.') -%}
    {%- endif -%}
    {#- `dbt-backfill run --turns` repeats runs of one barrier per model. It sets an environment variable and not a dbt var, because a new value of a
        var makes dbt parse the project again. -#}
    {%- if env_var('DBT_BACKFILL_TURNS', '') == '1' -%} {{ return(dict(options, barriers_per_run=1, run_minutes=none, run_rows=none)) }} {%- endif -%}
    {%- if options.take_turns -%}
        {%- set why = 'models can take turns only with the adapter (type: spark_backfill)'
            if adapter.type() != 'spark_backfill'
            else 'dbt runs with one thread, so one model ends before the next model begins' if target.threads | int < 2 else none -%}
        {%- if why -%}
            {%- do exceptions.warn('backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': take_turns has no effect, because ' ~ why
                ~ '. dbt-backfill run --turns takes turns in any case.') -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(options) }}
{% endmacro %}


{#- Return the value of an option: {'value', 'expected': a description of the allowed values; none if this value is allowed}. -#}
{% macro read_value(option, value) %}
    {%- set type, choices = option.type, option.get('choices') or [none] -%}
    {%- set least, most, default = option.get('least'), option.get('most'), option.get('default', choices[0]) -%}
    {%- if value is none -%} {{ return({'value': default, 'expected': none}) }} {%- endif -%}
    {%- if type == 'integer' -%}
        {%- set allowed = value is integer and value >= least and (most is none or value <= most) -%}
        {%- set bounds = ' to ' ~ most if most is not none else ' or more' -%}
        {%- set expected = 'a whole number of ' ~ least ~ bounds ~ (', or leave it out' if default is none else '') -%}
    {%- elif type == 'number' -%}
        {%- set allowed, expected = value is number and value is not boolean and value > 0, 'a number above 0, or leave it out' -%}
    {%- elif type == 'boolean' -%}
        {%- set allowed, expected = value is boolean, 'true or false' -%}
    {%- elif type == 'choice' -%}
        {%- set allowed, expected = value in choices, choices | join(' or ') -%}
    {%- elif type == 'barriers' -%}
        {%- set allowed, expected = value == 'all' or value is integer and value >= 1, "a whole number of 1 or more, or 'all'" -%}
        {%- set value = none if value == 'all' else value -%}
    {%- elif type == 'vnodes' -%}
        {%- set value = dbt_backfill._parse_vnodes(value) if value is string else value -%}
        {%- set allowed = value is not mapping and value is iterable and value and not value | reject('integer') | list
            and not value | select('lt', 0) | list -%}
        {%- set expected = "a list of vnode numbers, or text such as '0-15,32', or leave it out" -%}
        {%- set value = value | unique | sort if allowed else value -%}
    {%- elif type == 'columns' -%}
        {%- set value = [value] if value is string and value else value -%}
        {%- set allowed = value is not string and value is not mapping and value is iterable and value and not value | reject('string') | list
            and value | unique | list | length == value | length -%}
        {%- set value, expected = value | list if allowed else value, 'a column or a list of different columns' -%}
    {%- endif -%}
    {{ return({'value': value, 'expected': none if allowed else expected}) }}
{% endmacro %}


{#- Return one option of the model, from its config or from config.meta. Some engines accept unknown options only in config.meta. -#}
{% macro read_option(name) %}
    {%- set options = dbt_backfill.get_config() -%}
    {{ return(options.get(name, (options.get('meta') or {}).get(name))) }}
{% endmacro %}


{#- Return the config of the model. In a run-operation that acts like a run of the model, this is the config of the graph. -#}
{% macro get_config() %}
    {%- if invocation_args_dict.get('which') == 'run-operation' and model.get('resource_type') == 'model' -%} {{ return(model.config) }} {%- endif -%}
    {{ return(config) }}
{% endmacro %}


{#- Return the numbers of a text such as `0-15,32`; [] if the text has another form. -#}
{% macro _parse_vnodes(text) %}
    {%- set vnodes = [] -%}
    {%- for part in text.split(',') -%}
        {%- set ends = modules.re.search('^\\s*([0-9]{1,5})\\s*(?:-\\s*([0-9]{1,5})\\s*)?$', part) -%}
        {%- if not ends or (ends.group(2) or ends.group(1)) | int < ends.group(1) | int -%} {{ return([]) }} {%- endif -%}
        {%- do vnodes.extend(range(ends.group(1) | int, (ends.group(2) or ends.group(1)) | int + 1)) -%}
    {%- endfor -%}
    {{ return(vnodes) }}
{% endmacro %}


{% macro get_file_format() %}
    {%- set value = dbt_backfill.read_option('file_format') -%}
    {%- if value not in [none, 'delta', 'iceberg'] -%} {%- do dbt_backfill.refuse_option('file_format', value, 'delta or iceberg') -%} {%- endif -%}
    {{ return(value or 'delta') }}
{% endmacro %}


{#-
    Return the options that are set for the model but have no effect, as a list of {'fact', 'change'}. dbt itself ignores an option that it does not
    know, such as a misspelt name, and an option that only other materializations read.

    An option without effect in the model's own config() is refused. Options from other files may be set for a whole folder of models, and dbt does
    not say from which file they come. Such an option is refused only if its name looks like an option of backfilled_mv. Options of other
    materializations get a warning. All other names are ignored, because another tool may read them.
-#}
{% macro find_unknown_options() %}
    {%- set options, own, unknown, found = dbt_backfill.get_config(), dbt_backfill.get_options().keys() | list, [], [] -%}
    {%- set looks_like_ours = (
        'backfil', 'barrier', 'vnode', 'check_k', 'on_quer', 'on_gap', 'upstream_k', 'volatile_c', 'live_v', 'change_feed', 'run_min', 'run_row', 'take_t',
        'replica', 'compact', 'sort_when',
    ) -%}
    {%- for name in model.config.keys() | list + (options.get('meta') or {}).keys() | list -%}
        {%- if name.startswith(looks_like_ours) and name not in own -%} {%- do unknown.append(name) -%} {%- endif -%}
    {%- endfor -%}
    {#- This list has the options that dbt and dbt-spark apply to every materialization, and the options that the clauses of the MV's tables use. -#}
    {%- set of_dbt = [
        'access', 'alias', 'contract', 'database', 'docs', 'enabled', 'event_time', 'freshness', 'full_refresh', 'grants', 'group',
        'materialized', 'meta', 'packages', 'persist_docs', 'post-hook', 'post_hook', 'pre-hook', 'pre_hook', 'quoting', 'schema',
        'static_analysis', 'tags', 'buckets', 'clustered_by', 'location_root', 'partition_by', 'tblproperties',
    ] -%}
    {#- Users may expect an effect of these options, but the options have no effect on a backfilled_mv. The keys are the hints that say what to do
        instead. -#}
    {%- set instead = {
        'Remove it: on_query_change and on_schema_change say what happens when the query changes': ['on_configuration_change'],
        'Remove it: changes are always merged by unique_key, all columns of them': [
            'incremental_strategy', 'incremental_predicates', 'predicates', 'merge_exclude_columns', 'merge_update_columns',
            'merge_with_schema_evolution', 'matched_condition', 'not_matched_condition', 'not_matched_by_source_action',
            'not_matched_by_source_condition', 'skip_matched_step', 'skip_not_matched_step', 'delete_condition', 'update_condition',
            'insert_condition',
        ],
        'Remove it: backfill_rate_limit says how many rows one barrier reads': ['batch_size', 'begin', 'lookback', 'concurrent_batches'],
        'Set clustered_by, which is liquid clustering on Delta': ['cluster_by', 'liquid_clustered_by', 'auto_liquid_cluster'],
        'Set sort_when_finished: true, or sort the table between two barriers': ['zorder'],
        'Set tblproperties': ['options', 'table_properties'],
        "Set file_format to 'iceberg' or 'delta'; the catalog is the session's": ['table_format', 'catalog_name'],
        'Set a pre_hook, which runs in the same session': ['sql_header'],
        'Set a post_hook that alters the table': ['databricks_tags', 'row_filter'],
    } -%}
    {%- set relation = this if this is defined else dbt_backfill.get_node_relation(model) -%}
    {%- if relation.database is none and not relation.schema.startswith((options.get('database') or '') ~ '.') -%}
        {%- do instead.update({'Remove it, or follow "Other catalogs" in docs/profiles.md: dbt-spark knows no database': ['database']}) -%}
    {%- endif -%}
    {%- set without_effect = {} -%}
    {%- for text, names in instead.items() -%}
        {%- for name in names -%} {%- do without_effect.update({name: text}) -%} {%- endfor -%}
    {%- endfor -%}
    {%- set of_the_model = model.get('config_call_dict') or {} -%}
    {%- for name in of_the_model if options.get(name) is not none -%}
        {%- if name in without_effect and options.get(name) != 'ignore' -%}
            {%- set change = without_effect[name] -%}
            {%- do found.append({'id': 'option-without-effect', 'fact': name ~ ' has no effect on a backfilled_mv', 'change': change}) -%}
        {%- elif name not in own + of_dbt and name not in without_effect -%}
            {%- do unknown.append(name) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for name in model.get('unrendered_config') or {} if name in without_effect and name not in of_the_model
            and options.get(name) is not none and options.get(name) != 'ignore' -%}
        {%- do exceptions.warn('backfilled_mv ' ~ dbt_backfill.get_model_name(model) ~ ': ' ~ name
            ~ ' is set for this model, but has no effect on a backfilled_mv. ' ~ without_effect[name]
            ~ '. To turn this warning off, set ' ~ name ~ '=none in the model.') -%}
    {%- endfor -%}
    {%- if unknown -%}
        {%- do found.append({
            'id': 'option-unknown', 'fact': "there is no option '" ~ unknown | unique | join("', nor '") ~ "'",
            'change': 'Correct or remove it, or move it into meta if another tool reads it. The options of a backfilled_mv are '
                ~ own | join(', ') ~ ", and dbt's own",
        }) -%}
    {%- endif -%}
    {{ return(found) }}
{% endmacro %}
