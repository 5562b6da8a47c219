{#-
    Stage the changes of a plan that another run made. (If this run makes the plan, the planning script has the same statements, see plan_barrier.)

    The stage has two views. The first view has the keys that changed between the committed version and the plan's version, each with its last state.
    Keys above the committed position of their vnode are left out. The view is temporary and cached, because the feed is expensive to read and would
    be read more than once. The MERGE reads the second view: the query's result for these keys. The view has the MV's columns and `__bf_dropped`,
    which is true if the query no longer returns a row of the key. (The table `<mv>__staged` is something else, see upstreams/postgres/stage.sql.)

    Return {
      'failed': see run_merge; if a step failed, all other entries are absent,
      'name': the name of the second view,
      'count', 'null_keys', 'altered_keys', 'suspects', 'inserts', 'low', 'high': see get_stage,
      'reread': see get_reread_statements; its count is 0 if the feed reports the last state of every key,
      'upserts', 'drops', 'filter': facts about the second view, see get_merged_statements
    }
-#}
{% macro stage_changes(backfill, state, plan, changes, may_give_up=false) %}
    {%- set stage = dbt_backfill.get_stage(backfill, state, plan, changes) -%}
    {%- set sql -%}
        begin
            {{ stage.declarations | join(';\n            ') }};
            {%- if may_give_up %}
            {{ dbt_backfill.declare_failure_handlers() }}
            {%- endif %}
            {{ stage.statements | join(';\n            ') }};
            select to_json(struct(staged, reread, merged));
        end
    {%- endset -%}
    {%- set result = dbt_backfill.run_json('stage the changes', sql)[0] -%}
    {%- set failed = dbt_backfill.find_failure(backfill, 'stage the changes', result) -%}
    {{ return({'failed': failed} if failed else dict(dbt_backfill.describe_stage(backfill, plan, result), failed=none)) }}
{% endmacro %}


{#- Return the names of the temporary views of a barrier's changes. Views belong to a session, which other runs may share. So the names contain ids of
    this plan and this run, and no other run can replace the views. The names are short because every statement of the stage has them. -#}
{% macro get_stage_names(backfill, plan) %}
    {%- set id = local_md5([backfill.mv.render(), plan.plan_id, invocation_id] | join(' '))[:12] -%}
    {%- set name = backfill.mv.identifier ~ '__changes__' ~ id -%}
    {%- set names = {'states': dbt_backfill.identifier(name)} -%}
    {%- for view in ['events', 'rows', 'again', 'doubtful', 'overlay', 'overlay_events'] -%}
        {%- do names.update({view: dbt_backfill.identifier(name ~ '__' ~ view)}) -%}
    {%- endfor -%}
    {{ return(names) }}
{% endmacro %}


{#-
    Return the changes of a plan that has changes, see has_changes. The result is the answer to the question upstream_changes, with more entries.
    'views' also has the views of the stage, each before the views that it reads. The following facts come from the plan and the analysis: {
      'drops_rows',
      'checks_before': true if the MV is compared with the row that the first event of a key removes: Q may drop this row, but not another row.
        A feed with may_repeat does not report this row,
      'is_exact': true if the MV has the query's result for the rows before these changes,
      'read_columns': the columns whose change can change the MV's row. It is none if all changes have to be merged: the feed does not report the
        previous row, or the MV may not have the query's result for the previous row
    }
-#}
{% macro get_changes(backfill, state, observed, analysis, plan) %}
    {%- set names, checks_before = dbt_backfill.get_stage_names(backfill, plan), backfill.options.check_key and analysis.drops_rows -%}
    {%- if backfill.feed -%}
        {%- set changes = dbt_backfill.get_change_table_events(
            backfill.feed, observed.feed, dbt_backfill.get_source(dbt_backfill.get_feed_start(state), 'feed').version,
            dbt_backfill.get_source(plan, 'feed').version, plan.key, analysis.feed_columns, names.events
        ) -%}
    {%- else -%}
        {%- set changes = dbt_backfill.ask(backfill.upstream, 'upstream_changes')(
            dict(observed, needs_deleted_rows=checks_before), state.upstream_version, dbt_backfill.get_source(plan).version, plan.key, names.events
        ) -%}
    {%- endif -%}
    {%- set events = changes.events -%}
    {#- Delta returns changes with the columns of the newest version. Columns that the upstream lacks at the plan's version are left out. -#}
    {%- if analysis.upstream_columns is not none and analysis.version == dbt_backfill.get_source(plan).version -%}
        {%- set columns = analysis.upstream_columns -%}
        {%- if analysis.feed_columns is not none -%} {%- set columns = columns | select('in', analysis.feed_columns) | list -%} {%- endif -%}
        {%- set events = 'select ' ~ dbt_backfill.identifiers(columns) ~ ', __bf_version, __bf_is_upsert from (' ~ events ~ ')' -%}
    {%- endif -%}
    {%- set is_exact = plan.kind == 'advance' and not plan.get('sweeps') and not state.dirty -%}
    {{ return(dict(
        changes, events=events, views=[names.rows, names.again, names.doubtful, names.states] + changes.get('views', []),
        drops_rows=analysis.drops_rows, checks_before=checks_before and not changes.get('may_repeat'), is_exact=is_exact,
        read_columns=analysis.read_columns if is_exact and changes.tells_before else none,
    )) }}
{% endmacro %}


{#-
    Return parts of a script: 'declarations' of its variables, and 'statements' that make the stage. The statements also set the variables `staged`,
    `reread` and `merged`, which describe the stage. The entry `suspects` is the number of keys that get_reread_statements checks. `changes`: see
    get_changes.

    The events of a key that existed twice may look like the events of a unique key. The option `check_key` finds such keys by a join of the MV with
    the keys that were inserted or deleted.
-#}
{% macro get_stage(backfill, state, plan, changes) %}
    {%- set names, keys = dbt_backfill.get_stage_names(backfill, plan), plan.key -%}
    {%- set columns = dbt_backfill.upstream_columns(keys) -%}
    {%- set events = dbt_backfill.get_prefix_scan_sql('(' ~ changes.events ~ ')', state, backfill, keys, with_null_keys=true) -%}
    {%- set altered = dbt_backfill.altered_key_predicate(changes, keys) -%}
    {%- set suspicions = ['__bf_unclear'] + (['__bf_inserted'] if backfill.options.check_key else [])
        + (['__bf_before is not null'] if changes.checks_before else []) -%}
    {%- set null_key = dbt_backfill.null_key_predicate(columns) -%}
    {#- If the query returns a row for every row of the upstream, the MV has every key that the feed does not report as inserted. -#}
    {%- set inserts = 'count_if(__bf_unclear or __bf_inserted and not __bf_deleted' ~ (' or ' ~ altered if altered else '') ~ ')'
        if changes.is_exact and not changes.drops_rows and not changes.may_repeat else 'count(*)' -%}
    {%- set summary -%}
        set staged = (select named_struct(
            'count', count, 'null_keys', null_keys, 'altered_keys', altered_keys, 'suspects', suspects, 'inserts', inserts,
            'low', {{ dbt_backfill.literals_expression(keys, 'low.') }}, 'high', {{ dbt_backfill.literals_expression(keys, 'high.') }}
        )
        from (
            select
                count_if(not {{ null_key }}) as count,
                count_if({{ null_key }}{{ ' and not __bf_deleted' if not backfill.feed }}) as null_keys,
                count_if(not {{ null_key }} and {{ altered or 'false' }}) as altered_keys,
                count_if(not {{ null_key }} and ({{ (suspicions + ([altered] if altered else [])) | join(' or ') }})) as suspects,
                {{ inserts }} as inserts,
                min(struct({{ columns | join(', ') }})) filter (where not {{ null_key }}) as low,
                max(struct({{ columns | join(', ') }})) filter (where not {{ null_key }}) as high
            from {{ names.states }}
        ))
    {%- endset -%}
    {{ return({
        'declarations': changes.get('declarations', []) + [
            'declare staged struct<count: bigint, null_keys: bigint, altered_keys: bigint, suspects: bigint, inserts: bigint, low: array<string>, high: array<string>>',
            'declare reread struct<count: bigint, low: array<string>, high: array<string>, twice: array<array<string>>>',
            'declare merged struct<upserts: bigint, drops: bigint, filter: string>', 'declare __bf_keys bigint', 'declare __bf_words int',
        ],
        'statements': changes.get('setup', []) + [
            dbt_backfill.get_last_states_view_sql(names.states, events, keys, changes),
            'cache table ' ~ names.states,
            summary,
            dbt_backfill.get_reread_statements(backfill, state, plan, names, suspicions, altered),
            dbt_backfill.get_rows_view_sql(backfill, plan, names, alters_keys=altered is not none),
            'cache table ' ~ names.rows,
            dbt_backfill.get_merged_statements(backfill, keys, names.rows),
        ],
    }) }}
{% endmacro %}


{#- Return a statement of a script that makes the second view: the query's result for the last rows of the staged keys, as the MERGE reads it. The
    last rows come from the feed. If keys are in doubt, their rows come from the upstream, which the script has read again. Then the view also has the
    keys in doubt that the first view lacks. The statement has placeholders, which the script replaces by these parts or by nothing. -#}
{% macro get_rows_view_sql(backfill, plan, names, alters_keys=false) -%}
    {%- set keys, query, upstream, coalesced = plan.key, plan.query, backfill.upstream.relation, [] -%}
    {%- set columns, mv_columns = dbt_backfill.upstream_columns(keys), dbt_backfill.mv_columns(keys) -%}
    {%- for name in mv_columns -%}
        {%- do coalesced.append('coalesce(query.' ~ name ~ ', stage.' ~ columns[loop.index0] ~ ') as ' ~ name) -%}
    {%- endfor -%}
    {%- set rows = 'select stage.* except (__bf_deleted, __bf_inserted, __bf_before, __bf_unclear) from ' ~ names.states
        ~ ' as stage __bf_undoubted__ where not __bf_deleted' -%}
    {%- set view -%}
        create or replace temporary view {{ names.rows }} as
        select
            query.* except ({{ mv_columns | join(', ') }}),
            {{ coalesced | join(', ') }},
            query.{{ mv_columns[0] }} is null as __bf_dropped
        from {{ '__bf_keys__' if alters_keys else names.states }} as stage
        left join (
            {{ dbt_backfill.get_query_sql(query, upstream, rows) }}
            __bf_again__
        ) as query
        on {{ dbt_backfill.equal_keys(keys, 'stage.', 'query.', 'upstream') }}
        where not {{ dbt_backfill.null_key_predicate(dbt_backfill.upstream_columns(keys, 'stage.')) }}
    {%- endset -%}
    {%- set literals = {} -%}
    {%- set parts = [
        ('__bf_undoubted__', '', 'left anti join ' ~ names.doubtful ~ ' as doubtful on '
            ~ dbt_backfill.equal_keys(keys, 'stage.', 'doubtful.', 'upstream', 'upstream')),
        ('__bf_again__', '', 'union all select * from (' ~ dbt_backfill.get_query_sql(query, upstream, 'select * from ' ~ names.again) ~ ')'),
    ] -%}
    {%- if alters_keys -%}
        {%- set listed = 'select ' ~ columns | join(', ') ~ ' from ' -%}
        {%- do parts.append(('__bf_keys__', names.states, '(' ~ listed ~ names.states ~ ' union ' ~ listed ~ names.doubtful ~ ')')) -%}
    {%- endif -%}
    {%- for placeholder, part, in_doubt in parts -%}
        {%- set texts = dbt_backfill.string_literal(in_doubt) ~ ', ' ~ dbt_backfill.string_literal(part) -%}
        {%- do literals.update({placeholder: 'if(reread.count > 0, ' ~ texts ~ ')'}) -%}
    {%- endfor -%}
    {{ return(dbt_backfill.get_execute_with_literals_sql(view, literals)) }}
{%- endmacro %}


{#-
    Return a statement of a script that makes a temporary view of one row per key: the columns of its last event, and facts about its events: {
      '__bf_deleted': true if the last event deletes the row,
      '__bf_inserted': true if the first event inserts a row: the key had no row before,
      '__bf_before': the row that the first event removes, with changes.checks_before; null if the first event removes no row,
      '__bf_unclear': true if the events do not report the last state
    }
    A key is left out if nothing changed for the query: its first event removes the same values that its last event adds, in all columns that the
    query reads.

    The last event of a key is the event of the latest version. Within one version, an insert or after-image comes after a delete or before-image of
    the same key. A before-image without an after-image means a delete, or an UPDATE that changed the key.

    This order is right if the events of a key are a chain of states: each event removes the image that the previous event added. If a key existed
    twice for a while, an event may remove the older row instead. Examples are `insert (2, 'new')` before `delete where id = 2 and name = 'old'`, and
    two UPDATEs that swap two keys. Two checks find such keys. First, the number of upserts minus the number of deletes must agree with the first and
    the last event. Second, the images must agree with these two events: an image that was added and removed occurs an even number of times, so its
    hashes cancel out. One commit has at most one delete and one upsert of a unique key, so its images are not hashed. The feed may also have altered
    the last state, see altered_predicate.
-#}
{% macro get_last_states_view_sql(name, events, keys, changes) -%}
    {%- set order = 'struct(__bf_version, __bf_is_upsert)' -%}
    {%- set read, before, literals = changes.read_columns, ['__bf_is_upsert', '__bf_image'], {} -%}
    {%- for column in read or [] -%} {%- do before.append(dbt_backfill.identifier(column.name)) -%} {%- endfor -%}
    {%- set unclear -%}
        balance <> if(latest.__bf_is_upsert, 1, 0) - if(earliest.__bf_is_upsert, 0, 1)
            {%- if changes.alters_values %}
            or latest.__bf_is_upsert and (contains(typeof(latest), 'map<') or {{ dbt_backfill.altered_predicate('latest') }})
            {%- endif %}
            or {{ 'events > 2' if changes.one_commit else
                'images <> if(latest.__bf_is_upsert, latest.__bf_image, 0L) ^ if(earliest.__bf_is_upsert, 0L, earliest.__bf_image)' }}
    {%- endset -%}
    {%- set view -%}
    create or replace temporary view {{ name }} as
    select
        latest.* except (__bf_version, __bf_is_upsert, __bf_image),
        not latest.__bf_is_upsert as __bf_deleted,
        {%- if changes.may_repeat %}
        false as __bf_inserted,
        null as __bf_before,
        false as __bf_unclear
        {%- else %}
        earliest.__bf_is_upsert as __bf_inserted,
        {{ 'if(earliest.__bf_is_upsert, null, earliest)' if changes.checks_before else 'null' }} as __bf_before,
        {{ unclear }} as __bf_unclear
        {%- endif %}
    from (
        select
            max_by(struct(*), {{ order }}) as latest,
            min_by(struct({{ '*' if changes.checks_before else before | join(', ') }}), {{ order }}) as earliest,
            sum(if(__bf_is_upsert, 1, -1)) as balance,
            count(*) as events,
            bit_xor(__bf_image) as images
        from (
            {#- Spark cannot hash a map or a variant, so this hashes the JSON of the row. #}
            select *, {{ '0L' if changes.may_repeat or changes.one_commit else 'xxhash64(to_json(struct(* except (__bf_version, __bf_is_upsert)), '
                ~ dbt_backfill.whole_json_options() ~ '))' }} as __bf_image
            from ({{ events }})
        )
        group by {{ dbt_backfill.upstream_columns(keys) | join(', ') }}
    )
    {%- if read %}
    where earliest.__bf_is_upsert or not latest.__bf_is_upsert or {{ dbt_backfill.rows_differ(read, 'earliest', 'latest') }}
        or {{ dbt_backfill.null_key_predicate(dbt_backfill.upstream_columns(keys, 'latest.')) }}
        or {{ unclear }}
    {%- endif %}
    {%- endset -%}
    {%- for variable in changes.literals or [] -%} {%- do literals.update({variable: variable}) -%} {%- endfor -%}
    {{ return(dbt_backfill.get_execute_with_literals_sql(view, literals) if literals else view) }}
{%- endmacro %}


{#- Return a predicate that is true if a row may have another value in the feed than in the table. Delta's change data feed and Iceberg's changelog
    convert rows to Java objects, which alters three kinds of values. A day of October 1582 that the Gregorian calendar leaves out becomes the 15th.
    Bytes that are not UTF-8 become U+FFFD. (Both were tried with Delta 4.3 and Iceberg 1.11.) The entries of a map get another order. -#}
{% macro altered_predicate(row) %}
    {{ return('to_json(' ~ row ~ ', ' ~ dbt_backfill.whole_json_options() ~ ") rlike '\\uFFFD|1582-10-1[456]'") }}
{% endmacro %}


{#- Return a predicate for keys that the feed may report with another value: strings, dates, timestamps. Return none if it alters no key. -#}
{% macro altered_key_predicate(changes, keys, prefix='') %}
    {%- set kept = ['tinyint', 'smallint', 'int', 'bigint', 'boolean'] -%}
    {%- for key in keys if changes.alters_values and key.type not in kept and not key.type.startswith('decimal(') -%}
        {{ return(dbt_backfill.altered_predicate('struct(' ~ dbt_backfill.upstream_columns(keys, prefix) | join(', ') ~ ')')) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}
