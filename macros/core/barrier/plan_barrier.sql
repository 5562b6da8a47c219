{#-
    The step "plan" of a barrier: the plan of the next epoch. Returns {'waits'}: what its feed has not landed, or {
      'plan': the one that now stands,
      'staged': its changes, as stage_changes tells them; none if it has none, or is another run's,
      'views': the temporary views that were made on the way,
      'source': its range source, if that is a copy which more plans read; else none, as of another run's plan, see get_planned_source,
      'result': of the script that stored it
    }

    One script does what belongs together: it stages the changes, checks the keys that the barrier reads and, if
    nothing is wrong with them, creates the tables of a first run and inserts the plan, unless one stands already.
    If so, because an earlier run died or another is alive, that one is adopted word for word. So whatever is
    refused is refused before anything is written.

    Arguments:
      choice (dict): what choose_plan chose.
      columns (list): of the MV, where it is about to be created.
-#}
{% macro plan_barrier(backfill, state, observed, choice, columns=none) %}
    {%- set learned, epoch = choice.learned, choice.plan.epoch -%}
    {%- set planning = namespace(
        attempt=dbt_backfill.begin_attempt(
            backfill, state, observed, learned, choice.plan, choice.most_rows, choice.get('copy')
        ),
        stands=none, staged=none, views=[], source=none, result=none,
    ) -%}
    {%- for _ in range(4) -%}
        {%- if planning.stands is none and not planning.attempt.get('waits') -%}
            {%- do dbt_backfill._run_attempt(backfill, state, observed, learned, columns, planning) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if planning.attempt.get('waits') -%}
        {%- do dbt_backfill.drop_stages(planning.views) -%}
        {{ return({'waits': planning.attempt.waits}) }}
    {%- elif planning.stands is none -%}
        {%- do dbt_backfill.drop_stages(planning.views) -%}
        {%- do dbt_backfill.refuse(
            'its barrier ' ~ epoch ~ ' could not be planned, because its upstream or another run did not stand still',
            'Nothing is lost; run again to continue'
        ) -%}
    {%- endif -%}
    {{ return({
        'plan': planning.stands, 'staged': planning.staged, 'views': planning.views, 'source': planning.source,
        'result': planning.result,
    }) }}
{% endmacro %}


{#-
    Send the script of an attempt at a plan, and record its result in `planning`: the stored plan, with its staged changes; or the next
    attempt, with other bounds, as a re-anchor, or because keys with equal hashes were not equal.
-#}
{% macro _run_attempt(backfill, state, observed, learned, columns, planning) %}
    {%- set attempt = planning.attempt -%}
    {%- set backfill = dict(backfill, source=attempt.source) -%}
    {%- set result = dbt_backfill.run_json(
        'plan the barrier ' ~ attempt.plan.epoch, dbt_backfill.get_plan_script(backfill, state, attempt, columns)
    )[0] -%}
    {%- set planning.views = planning.views + attempt.views -%}
    {%- set checked = result.get('checked') or {} -%}
    {%- set unclear = 'the changes since version ' ~ state.upstream_version ~ ' can no longer be read' if result.get('lost')
        else dbt_backfill.find_unclear_changes(result.get('staged') or {}) -%}
    {%- set twice = (result.get('reread') or {}).get('twice') or [] -%}
    {%- set doubt = dbt_backfill.find_doubt_of_copy(attempt.source, result) -%}
    {%- if result.get('plan') -%}
        {%- set planning.stands = result.plan -%}
        {%- set is_own = result.plan.plan_id == attempt.plan.plan_id -%}
        {%- set planning.source = attempt.source if is_own else none -%}
        {%- set planning.result = result -%}
        {%- if not is_own and result.plan.kind != 'abandon' -%}
            {%- do dbt_backfill.check_model_of_plan(backfill, state.settings, result.plan, planning.views) -%}
        {%- endif -%}
    {%- elif state.get('missing') and not checked.null_keys and not checked.duplicates and not result.get('copy_is_gone') -%}
        {%- do dbt_backfill.refuse('another run has created its tables meanwhile', 'Nothing is lost; run again to continue') -%}
    {%- elif 'plan' in result -%}
        {%- do dbt_backfill.drop_stages(planning.views) -%}
        {%- do dbt_backfill.refuse_concurrent_run(attempt.plan) -%}
    {%- elif unclear -%}
        {%- set reanchor = dbt_backfill.choose_reanchor(
            backfill, state, observed, learned, unclear, started=true, whole=true, views=planning.views,
            filling=dbt_backfill.get_filling_of_plan(attempt.plan)
        ) -%}
        {%- set planning.attempt = dbt_backfill.begin_attempt(
            backfill, state, observed, learned,
            dict(reanchor, sources=dbt_backfill.with_void_copy(reanchor.sources, given_up=attempt.plan.sources))
        ) -%}
    {%- elif doubt -%}
        {%- do log(dbt_backfill.get_model_name(model) ~ ': ' ~ doubt ~ ', so that its upstream itself is read', info=true) -%}
        {%- if result.get('copy_is_gone') -%} {%- do adapter.cache_dropped(attempt.source.relation) -%} {%- endif -%}
        {%- set planning.attempt = dbt_backfill.without_copy(attempt) -%}
    {%- elif twice -%}
        {%- do dbt_backfill.refuse_duplicate_keys(attempt.plan, twice, planning.views) -%}
    {%- elif checked.null_keys or checked.duplicates -%}
        {%- do dbt_backfill.refuse_keys(backfill, state, attempt.plan, checked, planning.views) -%}
        {%- set planning.attempt = dict(attempt, keys_are_unique=true) -%}
    {%- else -%}
        {%- set find = dbt_backfill.find_fill_bounds if attempt.plan.get('fills') else dbt_backfill.find_bounds -%}
        {#- A part ends with the bounds of before. -#}
        {%- set attempt = attempt if not attempt.source or dbt_backfill.is_whole(attempt.source.recorded)
            else dbt_backfill.without_copy(attempt) -%}
        {%- set copy = attempt.source.recorded if attempt.source else none -%}
        {%- set bounds = find(dict(backfill, source=attempt.source), state, attempt.plan) -%}
        {%- set planning.attempt = dict(
            dbt_backfill.new_attempt(backfill, state, observed, learned, dict(attempt.plan, **bounds), copy=copy),
            keys_are_unique=attempt.keys_are_unique,
        ) -%}
    {%- endif -%}
    {%- set is_own = planning.stands is not none and planning.stands.plan_id == attempt.plan.plan_id -%}
    {%- set planning.staged = dbt_backfill.get_own_stage(backfill, attempt.plan, result) if is_own and result.get('staged') else none -%}
{% endmacro %}


{#-
    An attempt at a plan: what planning needs beside it, which is not stored: {
      'plan': as it would be stored, but for the rows that the script counts,
      'changes': how they are read, see get_changes; none if it has none,
      'views': the temporary views that they are staged in,
      'most_rows': with how many rows its range holds; none for any number,
      'source': its range source, if that is a copy which more plans read; else none, see get_planned_source,
      'keys_are_unique': whether equal hashes were found to be no equal keys
    }

    Arguments:
      copy (dict or none): a copy of the upstream that its range is to be read from, as a source of the plan.
-#}
{% macro new_attempt(backfill, state, observed, learned, plan, most_rows=none, copy=none) %}
    {%- set changes = dbt_backfill.get_changes(backfill, state, observed, learned, plan)
        if dbt_backfill.has_changes(state, plan) else none -%}
    {%- set source = dbt_backfill.get_copied_source(backfill, state, observed, plan, copy) if copy else none -%}
    {{ return({
        'plan': plan,
        'changes': changes,
        'views': (dbt_backfill.get_stage_views(backfill, plan, changes) if changes else []) + (source.setup.views if source and source.setup else []),
        'most_rows': most_rows,
        'source': source,
        'keys_are_unique': false,
    }) }}
{% endmacro %}


{#-
    A first attempt at a plan. Where no version of the upstream can be read again, the rows that it reads are staged before. {'waits'} if
    the feed has not landed what they may show. If it reported something that no row can be put right by, the plan is a re-anchor, and
    its rows are read after that.
-#}
{% macro begin_attempt(backfill, state, observed, learned, plan, most_rows=none, copy=none) %}
    {%- if not dbt_backfill.upstream_traits(backfill.upstream).stages_ranges -%}
        {{ return(dbt_backfill.new_attempt(backfill, state, observed, learned, plan, most_rows, copy)) }}
    {%- endif -%}
    {%- set begun = namespace(plan=plan, taken=none, observed=observed) -%}
    {%- for _ in range(4) -%}
        {%- if begun.taken and begun.taken.unclear and plan.kind != 'reanchor' and dbt_backfill.has_started(state) -%}
            {%- set begun.plan = dbt_backfill.choose_reanchor(
                backfill, state, begun.observed, learned, begun.taken.unclear, started=true, whole=true,
                filling=dbt_backfill.get_filling_of_plan(plan)
            ) -%}
        {%- endif -%}
        {%- if begun.taken is none or begun.taken.unclear -%}
            {%- set begun.taken = dbt_backfill.ask(backfill.upstream, 'stage_range')(
                backfill, state, begun.observed, begun.plan, again=begun.taken is not none
            ) -%}
            {%- set begun.observed = begun.taken.seen -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if begun.taken.waits -%} {{ return({'waits': begun.taken.waits}) }} {%- endif -%}
    {%- if begun.taken.unclear -%}
        {%- do dbt_backfill.refuse(
            begun.taken.unclear ~ ', four times in a row',
            'Run again when the table is not emptied; where its large values are not told, set REPLICA IDENTITY FULL for it'
        ) -%}
    {%- endif -%}
    {{ return(dbt_backfill.new_attempt(backfill, state, observed, learned, begun.taken.plan, most_rows)) }}
{% endmacro %}


{#- Return an attempt whose range is read from the upstream itself, and not from a copy. -#}
{% macro without_copy(attempt) %}
    {{ return(dict(attempt, plan=dict(attempt.plan, sources=dbt_backfill.with_void_copy(attempt.plan.sources)), source=none)) }}
{% endmacro %}


{#-
    The plan, with `counted`, see get_plan_json_sql: the numbers of rows that the script counts.

    Arguments:
      counted (boolean): whether the script's variable `checked` has the counts.
      staged (boolean): whether `merged` has those of the changes.
      overlaid (boolean): whether its range has changes laid over it. They and those that are merged are not read by one statement: of
        two table_changes of a table in one query Spark reads the versions of the first for both (seen with Spark 4.1 and Delta 4.3).
-#}
{% macro get_counted_plan(plan, counted, staged, overlaid=false) %}
    {%- set counts = dict(plan.get('counted') or {}) -%}
    {%- if counted -%} {%- do counts.update({'upstream_row_count': 'checked.upstream_row_count'}) -%} {%- endif -%}
    {%- if counted and dbt_backfill.kind_reads_range(plan) -%}
        {%- do counts.update({'range_row_count': 'checked.row_count', 'vnode_row_counts': 'checked.vnode_row_counts'}) -%}
        {%- if plan.get('fills') -%}
            {%- do counts.update({'filled_row_count': plan.filled_row_count ~ ' + checked.row_count'}) -%}
        {%- elif staged and not plan.sweeps and not overlaid -%}
            {%- do counts.update({'at_once': 'checked.row_count > 0 and merged.upserts + merged.drops > 0 '
                ~ 'and greatest(checked.row_count, merged.upserts + merged.drops) <= ' ~ dbt_backfill.at_once_rows()}) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(dict(plan, counted=counts)) }}
{% endmacro %}


{#-
    Up to how many changes, and rows of a range, both are merged by one statement. A range alone is merged without the
    clauses for rows that are there, which on Delta is faster for many rows.
-#}
{% macro at_once_rows() %}
    {{ return(100000) }}
{% endmacro %}


{#-
    The script. Its result: {
      'plan': the one that stands, absent if the checks failed,
      'lost': whether the changes are gone, see get_staging_statements; `staged` is then absent, and no plan is made,
      'copy_is_gone': whether a table is, where one of them is a copy; then absent is all else,
      'staged', 'reread': see get_stage, absent if the plan has no changes, or no key that is to be read again,
      'overlaid': see get_copied_source, absent if there is none, or the changes are gone,
      'checked': see get_key_check_sql, absent if the plan reads no keys
    }
-#}
{% macro get_plan_script(backfill, state, attempt, columns=none) -%}
    {%- set plan, changes = attempt.plan, attempt.changes -%}
    {%- set stage = dbt_backfill.get_stage(backfill, state, plan, changes, backfill.options.check_key) if changes else none -%}
    {%- set scan = dbt_backfill.get_checked_scan(backfill, state, plan) -%}
    {%- set overlay = attempt.source.setup if attempt.source else none -%}
    {%- set counted = dbt_backfill.get_counted_plan(
        plan, counted=scan is not none, staged=stage is not none, overlaid=overlay is not none
    ) -%}
    {%- set known = (['staged', 'reread', 'merged'] if stage else []) + (['overlaid'] if overlay else []) + (['checked'] if scan else []) -%}
    {%- set handler = dbt_backfill.upstream_traits(backfill.feed or backfill.upstream).lost_conditions if stage else none -%}
    {%- set conditions = (['staged.null_keys = 0', 'coalesce(size(reread.twice), 0) <= 0'] if stage else [])
        + (['overlaid.doubtful = 0'] if overlay else []) + (['checked.null_keys = 0', 'not checked.duplicates'] if scan else [])
        + (['checked.row_count <= ' ~ attempt.most_rows] if scan and attempt.most_rows else []) -%}
    begin
        {%- if handler %}
        declare lost boolean default false;
        {%- endif %}
        {%- for declaration in ((stage or {}).get('declarations', []) + (overlay or {}).get('declarations', [])) | unique %}
        {{ declaration }};
        {%- endfor %}
        {%- if scan %}
        declare checked struct<upstream_row_count: bigint, row_count: bigint, null_keys: bigint, duplicates: boolean, vnode_row_counts: map<int, bigint>>;
        {%- endif %}
        {%- if state.get('missing') %}
        {{ dbt_backfill.declare_creation() }}
        {%- else %}
        declare planned string;
        {%- endif %}
        {%- if attempt.source %}
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
        {%- set total = 'coalesce(' ~ dbt_backfill.ask(backfill.upstream, 'row_count_sql')(backfill.upstream, dbt_backfill.get_source(plan).version)
            ~ ', ' ~ (plan.get('upstream_row_count') or 0) ~ ')' -%}
        {%- set check_key = backfill.options.check_key and not attempt.keys_are_unique
            and not dbt_backfill.upstream_traits(backfill.upstream).enforces_keys -%}
        {%- set limit = plan.get('backfill_rate_limit') if dbt_backfill.kind_reads_range(plan) else none %}
        set checked = ({{ dbt_backfill.get_key_check_sql(
            scan, total, plan.key, plan.vnode_count, check_key, limit is none or limit > dbt_backfill.at_once_rows()
        ) }});
        {%- endif %}
        {%- if overlay %}
        end if;
        {%- endif %}
        if {{ conditions | join(' and ') or 'true' }} then
            {%- if state.get('missing') %}
            {{ dbt_backfill.get_create_statements(backfill, state.committed, columns, counted) }}
            select concat(
                '{', {%- if scan %} '"checked":', to_json(checked), ',', {%- endif %} '"plan":', coalesce(stored_plan, 'null'), '}'
            );
            {%- else %}
            {{ dbt_backfill.get_store_plan_statements(backfill, counted) }}
            {{ dbt_backfill.get_next_plan_sql(backfill, plan.epoch, known) }};
            {%- endif %}
        else
            select to_json(struct({{ ((['lost'] if handler else []) + known) | join(', ') }}));
        end if;
    end
{%- endmacro %}


{#- A select of the upstream's rows that a plan reads anew, whose keys are checked while it is planned; none if it reads none. -#}
{% macro get_checked_scan(backfill, state, plan) %}
    {%- set slice = dbt_backfill.kind_of(plan).slice -%}
    {%- set with_null_keys = not dbt_backfill.upstream_traits(backfill.upstream).enforces_keys -%}
    {%- if slice == 'insert' and dbt_backfill.moves_position(plan) -%}
        {{ return(dbt_backfill.get_range_scan_sql(
            dbt_backfill.get_range_read(backfill, plan), plan, state, backfill, plan.key, with_null_keys=with_null_keys
        )) }}
    {#- With a rate of 0 the second position does not move. -#}
    {%- elif slice == 'replace' and (plan.get('last_fill') or plan.get('fill_high') != plan.get('fill_low')) -%}
        {{ return(dbt_backfill.get_range_scan_sql(
            dbt_backfill.get_planned_read(backfill, plan), dbt_backfill.get_fill_window(plan), state, backfill, plan.key
        )) }}
    {%- elif slice == 'all' and plan.get('touched') is none -%}
        {{ return(dbt_backfill.get_prefix_scan_sql(
            dbt_backfill.get_planned_read(backfill, plan), state, backfill, plan.key, with_null_keys=with_null_keys
        )) }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#-
    The part of the script that stages the changes. What is gone shows only now: a VACUUM need not stand in the log, nor
    every change of the columns. It shows in a statement of its own, such as CACHE TABLE: an error in a query that sets a
    variable has no condition any more, and no handler takes it.

    Arguments:
      handler (string or none): the conditions by which that shows, see the trait `lost_conditions`.
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
    set planned = {{ dbt_backfill.get_plan_json_sql(plan) }};
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


{#- Refuse null keys and keys that stand twice. Returns if there are none: unequal keys may have one hash. -#}
{% macro refuse_keys(backfill, state, plan, checked, views=[]) %}
    {%- if checked.null_keys -%}
        {%- do dbt_backfill.drop_stages(views) -%}
        {%- do dbt_backfill.refuse(
            dbt_backfill.get_source(plan).relation ~ ' has ' ~ dbt_backfill.get_count_text(checked.null_keys, 'row')
                ~ ' with a null in ' ~ plan.key | map(attribute='upstream') | join(', ') ~ ', in version ' ~ dbt_backfill.get_source(plan).version,
            'Give these rows a key or delete them; a primary key is never null'
        ) -%}
    {%- endif -%}
    {%- set scan = dbt_backfill.get_checked_scan(backfill, state, plan) -%}
    {%- set duplicates = dbt_backfill.run_json(
        'find the duplicate keys', dbt_backfill.get_duplicate_keys_sql(scan, plan.key)
    ) -%}
    {%- if duplicates -%}
        {%- do dbt_backfill.refuse_duplicate_keys(plan, duplicates | map(attribute='key') | list, views) -%}
    {%- endif -%}
{% endmacro %}


{#- `duplicates`: some of the keys, as lists of literals; `views`: those to drop. -#}
{% macro refuse_duplicate_keys(plan, duplicates, views) %}
    {%- do dbt_backfill.drop_stages(views) -%}
    {%- do dbt_backfill.refuse(
        'the key ' ~ plan.key | map(attribute='upstream') | join(', ') ~ ' is not unique in ' ~ dbt_backfill.get_source(plan).relation
            ~ ', in version ' ~ dbt_backfill.get_source(plan).version ~ '; it stands twice with ('
            ~ duplicates | map('join', ', ') | join('), (') ~ ')',
        'Delete the duplicates, or name in unique_key the columns that are unique'
    ) -%}
{% endmacro %}
