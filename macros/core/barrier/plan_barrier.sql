{#-
    Run the step "plan" of a barrier: store the plan of the next epoch. Return {'waits': what the feed has not landed yet}, or {
      'plan': the plan that is stored now,
      'staged': the plan's changes, as stage_changes returns them; none if the plan has no changes, or if another run made the plan,
      'views': the temporary views that this macro has made,
      'source': the plan's range source, if this run made the plan and the source is a copy that several plans read, see get_source_read; else none,
      'result': the result of the script that stored the plan,
      'is_marked': true if this run made the plan; then its script has already set the mark of Iceberg's snapshots, see get_mark_statement
    }

    One script stages the changes and checks the keys that the barrier reads. If the keys are valid, the same script creates the tables (in a first
    run) and stores the plan. So a refusal comes before anything is written. If another run has stored a plan first, the script stores nothing, and
    this run executes the other run's plan word for word. `choice`: see choose_plan; `columns`: of the MV, if it is about to be created.
-#}
{% macro plan_barrier(backfill, state, observed, choice, columns=none) %}
    {%- set analysis = choice.analysis -%}
    {%- set planning = namespace(
        attempt=dbt_backfill.new_attempt(backfill, state, observed, analysis, choice.plan, choice.get('most_rows'), choice.get('copy')),
        source=none, views=[], result={},
    ) -%}
    {%- for _ in range(4) -%}
        {%- if not planning.result.get('plan') and not planning.attempt.get('waits') -%}
            {%- set attempt, plan = planning.attempt, planning.attempt.plan -%}
            {%- set changes = dbt_backfill.get_changes(backfill, state, observed, analysis, plan)
                if dbt_backfill.has_changes(state, plan) else none -%}
            {%- set source = dbt_backfill.get_copied_source(backfill, state, observed, plan, attempt.range_from) if attempt.range_from else none -%}
            {%- set overlay = source.setup if source else none -%}
            {%- set reading = dict(backfill, source=source) -%}
            {%- set result = dbt_backfill.run_json(
                'plan the barrier ' ~ plan.epoch, dbt_backfill.get_plan_script(reading, state, attempt, changes, columns)
            )[0] -%}
            {%- set planning.source = source -%}
            {%- set planning.views = planning.views + (changes.views if changes else []) + (overlay.views if overlay else []) -%}
            {%- set planning.result = result -%}
            {%- if not result.get('plan') -%}
                {%- set planning.attempt = dbt_backfill.find_next_attempt(reading, state, observed, analysis, attempt, result, planning.views) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set attempt, result, views, plan = planning.attempt, planning.result, planning.views, planning.result.get('plan') -%}
    {%- if not plan -%}
        {%- do dbt_backfill.drop_stages(views) -%}
        {%- if attempt.get('waits') -%} {{ return({'waits': attempt.waits}) }} {%- endif -%}
        {%- do dbt_backfill.refuse(
            'its barrier ' ~ choice.plan.epoch
                ~ ' could not be planned: four times in a row, its changes, its range or a copy of its upstream could not be used',
            'Nothing is lost; run again to continue. If this repeats, run the model while nothing writes to its upstream', id='barrier-not-planned'
        ) -%}
    {%- endif -%}
    {%- set is_own = plan.plan_id == attempt.plan.plan_id -%}
    {#- A late script may have stored the plan of an earlier MV. The next run removes this plan. -#}
    {%- if plan.get('backfill_id') != attempt.plan.get('backfill_id') -%} {%- do dbt_backfill.refuse_concurrent_run(plan) -%} {%- endif -%}
    {%- if not is_own and plan.kind != 'abandon' -%}
        {%- do dbt_backfill.check_model_of_plan(backfill, state.settings, plan, views) -%}
    {%- endif -%}
    {{ return({
        'plan': plan,
        'staged': dbt_backfill.describe_stage(backfill, attempt.plan, result) if is_own and result.get('staged') else none,
        'views': views, 'source': planning.source if is_own else none, 'result': result, 'is_marked': is_own,
    }) }}
{% endmacro %}


{#- Return the description of the changes that the statements of get_stage have staged. The lowest and the highest key are none if the feed may report
    other keys than the upstream has. -#}
{% macro describe_stage(backfill, plan, result) %}
    {%- set staged = dict(result.staged, low=none, high=none) if result.staged.get('altered_keys') else result.staged -%}
    {{ return(dict(staged, name=dbt_backfill.get_stage_names(backfill, plan).rows, reread=result.get('reread') or {'count': 0}, **result.merged)) }}
{% endmacro %}


{#- True if the plan may have changes to merge: rows were backfilled, and the plan reads a newer version of the upstream or of its change table. -#}
{% macro has_changes(state, plan) %}
    {%- set merges = dbt_backfill.kind_of(plan).merges_changes -%}
    {%- if not merges or merges == 'limited' and plan.get('touched') is none -%} {{ return(false) }} {%- endif -%}
    {%- set followed = 'feed' if dbt_backfill.get_source(plan, 'feed') else 'upstream' -%}
    {%- set since = dbt_backfill.get_source(dbt_backfill.get_feed_start(state), followed) or {} -%}
    {%- set moves = dbt_backfill.get_source(plan, followed).version != since.get('version') -%}
    {{ return(dbt_backfill.has_started(state) and moves and state.get('upstream_version') is not none) }}
{% endmacro %}


{#-
    Return an attempt to store a plan; {'waits'} instead if the rows of a live database may show changes that the feed has not landed. It is {
      'plan': the plan to store, but without the numbers of rows, which the planning script counts,
      'most_rows': the plan is stored only if its range has at most this number of rows; none if any number is allowed,
      'range_from': the copy of the upstream from which the range is read, as a source of the plan; none to read the upstream itself,
      'keys_are_unique': true if an earlier attempt found equal hashes, then compared the keys themselves, and found no duplicates
    }

    If the upstream is a live database, the rows that the plan reads are staged here. If the feed reports an event without a key, such as a TRUNCATE,
    the plan becomes a re-anchor, and the rows of the re-anchor are read after that event.
-#}
{% macro new_attempt(backfill, state, observed, analysis, plan, most_rows=none, copy=none) %}
    {%- set attempt = {'plan': plan, 'most_rows': most_rows, 'range_from': copy, 'keys_are_unique': false} -%}
    {%- if not dbt_backfill.upstream_traits(backfill.upstream).stages_ranges -%} {{ return(attempt) }} {%- endif -%}
    {%- set begun = namespace(plan=plan, taken=none, observed=observed) -%}
    {%- for _ in range(4) -%}
        {%- if begun.taken and begun.taken.unclear and plan.kind != 'reanchor' and dbt_backfill.has_started(state) -%}
            {%- if backfill.merges_only -%} {{ return({'waits': begun.taken.unclear}) }} {%- endif -%}
            {%- set begun.plan = dbt_backfill.choose_recovery(
                backfill, state, begun.observed, analysis, begun.taken.unclear, started=true, whole=true,
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
        {%- do dbt_backfill.refuse('its range was read four times without success: ' ~ begun.taken.unclear,
            'Run again while nobody empties the upstream; if the feed lacks large values of its rows, set REPLICA IDENTITY FULL for the upstream',
            id='range-not-read') -%}
    {%- endif -%}
    {{ return(dict(attempt, plan=begun.taken.plan)) }}
{% endmacro %}


{#- Return the next attempt, after the script of `attempt` stored no plan. The next attempt differs in one way: it is a re-anchor, it reads no copy,
    it has other bounds, or it skips the check of the keys because different keys had equal hashes. Refuse if no other attempt can succeed. With
    `merges_only`, return {'waits': why} instead of a re-anchor or a refusal of the keys. -#}
{% macro find_next_attempt(backfill, state, observed, analysis, attempt, result, views) %}
    {%- set plan, source, checked = attempt.plan, backfill.source, result.get('checked') or {} -%}
    {%- set null_keys = (result.get('staged') or {}).get('null_keys') -%}
    {%- set twice = (result.get('reread') or {}).get('twice') or [] -%}
    {%- set unclear = 'the changes since version ' ~ state.upstream_version ~ ' can no longer be read' if result.get('lost')
        else 'the feed has ' ~ null_keys ~ ' rows with a null in the key' if null_keys else none -%}
    {#- Null or duplicate keys of the copy may be gone from the upstream, and the feed does not always report that they are gone. -#}
    {%- set doubt = none if not source
        else 'the copy of its upstream is gone, because another run has dropped it' if result.get('copy_is_gone')
        else 'the feed does not list all that has changed since its rows were copied'
            if source.setup and (result.get('overlaid') or {'doubtful': 1}).doubtful
        else 'keys of the copied rows are in doubt' if checked.get('null_keys') or checked.get('duplicates') else none -%}
    {%- set pinned = ". Then rebuild the MV with --full-refresh, or set another backfill_mode than 'snapshot', which reads this version to its end"
        if dbt_backfill.stays_at_snapshot(backfill, state) and dbt_backfill.get_source(plan).version == state.upstream_version else '' -%}
    {%- set without_copy = dict(attempt, range_from=none, plan=dict(plan, sources=dbt_backfill.with_void_copy(plan.sources))) -%}
    {%- if 'plan' in result -%}
        {%- do dbt_backfill.drop_stages(views) -%}
        {%- if state.get('missing') -%}
            {%- do dbt_backfill.refuse('another run created the tables of the MV at the same time',
                'Nothing is lost; run again to continue', id='created-by-another-run') -%}
        {%- endif -%}
        {%- do dbt_backfill.refuse_concurrent_run(plan) -%}
    {%- elif backfill.merges_only and (unclear or twice) -%}
        {{ return({'waits': unclear or 'its key is not unique in the upstream any more: (' ~ twice[0] | join(', ') ~ ')'}) }}
    {%- elif unclear -%}
        {%- set reanchor = dbt_backfill.choose_recovery(
            backfill, state, observed, analysis, unclear, started=true, whole=true, views=views, filling=dbt_backfill.get_filling_of_plan(plan)
        ) -%}
        {%- set sources = dbt_backfill.with_void_copy(reanchor.sources, given_up=plan.sources) -%}
        {{ return(dbt_backfill.new_attempt(backfill, state, observed, analysis, dict(reanchor, sources=sources))) }}
    {%- elif doubt -%}
        {%- do log(dbt_backfill.get_model_name(model) ~ ': ' ~ doubt ~ ', so the upstream itself is read', info=true) -%}
        {%- if result.get('copy_is_gone') -%} {%- do adapter.cache_dropped(source.relation) -%} {%- endif -%}
        {{ return(without_copy) }}
    {%- elif twice -%}
        {%- do dbt_backfill.refuse_duplicate_keys(plan, twice, views, pinned) -%}
    {%- elif checked.null_keys -%}
        {%- do dbt_backfill.drop_stages(views) -%}
        {%- do dbt_backfill.refuse(
            dbt_backfill.get_source(plan).relation ~ ' has ' ~ dbt_backfill.get_count_text(checked.null_keys, 'row') ~ ' with a null in '
                ~ plan.key | map(attribute='upstream') | join(', ') ~ ', in version ' ~ dbt_backfill.get_source(plan).version,
            'Give these rows a key or delete them; a primary key is never null' ~ pinned, id='null-in-key') -%}
    {%- elif checked.duplicates -%}
        {#- The script compared hashes, and different keys may have the same hash. -#}
        {%- set sql = dbt_backfill.get_duplicate_keys_sql(dbt_backfill.get_checked_scan(backfill, state, plan), plan.key) -%}
        {%- set duplicates = dbt_backfill.run_json('find the duplicate keys', sql) -%}
        {%- if duplicates -%} {%- do dbt_backfill.refuse_duplicate_keys(plan, duplicates | map(attribute='key') | list, views, pinned) -%} {%- endif -%}
        {{ return(dict(attempt, keys_are_unique=true)) }}
    {%- endif -%}
    {#- The range has more rows than allowed, so it needs new bounds. If the copy has only a part of the upstream, the copy ends at the previous
        bounds, so the new bounds are found in the upstream itself. -#}
    {%- set kept = attempt if not source or dbt_backfill.is_whole(source.recorded) else without_copy -%}
    {%- set find = dbt_backfill.find_fill_bounds if plan.get('fills') else dbt_backfill.find_bounds -%}
    {%- set bounds = find(dict(backfill, source=source if kept.range_from else none), state, kept.plan) -%}
    {{ return(dict(kept, plan=dict(kept.plan, **bounds), most_rows=none)) }}
{% endmacro %}


{#- Drop the views and refuse duplicate keys. `duplicates`: some of these keys, as lists of literals. `pinned`: the end of the hint. -#}
{% macro refuse_duplicate_keys(plan, duplicates, views, pinned='') %}
    {%- do dbt_backfill.drop_stages(views) -%}
    {%- do dbt_backfill.refuse(
        'the key ' ~ plan.key | map(attribute='upstream') | join(', ') ~ ' is not unique in ' ~ dbt_backfill.get_source(plan).relation
            ~ ', in version ' ~ dbt_backfill.get_source(plan).version ~ '; duplicate keys: ('
            ~ duplicates | map('join', ', ') | join('), (') ~ ')',
        'Delete the duplicates, or name in unique_key the columns that are unique' ~ pinned, id='duplicate-keys') -%}
{% endmacro %}


{#-
    Return the script of an attempt. The script returns {
      'plan': the plan that is stored; absent if the checks failed, null if they passed but another run has committed the epoch,
      'lost': true if the changes can no longer be read, see get_staging_statements; then no plan is stored,
      'copy_is_gone': true if the script reads a copy and a table was missing; in this case all other entries are absent,
      'staged', 'reread': see get_stage; both are absent if the plan has no changes; 'reread' is also absent if no key is to be read again,
      'overlaid': see get_copied_source; absent if the copy has no overlay, or the changes are gone,
      'checked': see get_key_check_sql; absent if the plan reads no keys
    }

    Arguments:
      backfill (dict): its 'source' is the range source of the attempt, if that is a copy.
      changes (dict or none): see get_changes; none if the plan has no changes.
-#}
{% macro get_plan_script(backfill, state, attempt, changes, columns=none) -%}
    {%- set plan, traits = attempt.plan, dbt_backfill.upstream_traits(backfill.upstream) -%}
    {%- set stage = dbt_backfill.get_stage(backfill, state, plan, changes) if changes else none -%}
    {%- set overlay = backfill.source.setup if backfill.source else none -%}
    {%- set scan = dbt_backfill.get_checked_scan(backfill, state, plan) -%}
    {%- set counted = dbt_backfill.get_counted_plan(plan, staged=stage is not none, overlaid=overlay is not none) if scan else plan -%}
    {%- set known = (['staged', 'reread', 'merged'] if stage else []) + (['overlaid'] if overlay else []) + (['checked'] if scan else []) -%}
    {%- set handler = dbt_backfill.upstream_traits(backfill.feed or backfill.upstream).lost_conditions if stage else none -%}
    {#- `staged` may be set even if the changes were lost. If no keys are to be read again, `reread.twice` is null, and its size is -1 or null. -#}
    {%- set conditions = (['not lost'] if handler else [])
        + (['staged.null_keys = 0', 'coalesce(size(reread.twice), 0) <= 0'] if stage else [])
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
        {%- if backfill.source %}
        declare exit handler for sqlstate '42P01' begin select to_json(named_struct('copy_is_gone', true)); end;
        {%- endif %}
        {%- if stage %}
        {{ dbt_backfill.get_staging_statements(stage.statements, handler, 'set lost = true') }}
        {%- endif %}
        {%- if overlay %}
        {{ dbt_backfill.get_staging_statements(overlay.statements, traits.lost_conditions, 'set overlaid = null') }}
        if overlaid.doubtful = 0 then
        {%- endif %}
        {%- if scan %}
        {%- set total = 'coalesce(' ~ dbt_backfill.ask(backfill.upstream, 'row_count_sql')(backfill.upstream, dbt_backfill.get_source(plan).version)
            ~ ', ' ~ (plan.get('upstream_row_count') or 0) ~ ')' -%}
        {%- set check_key = backfill.options.check_key and not attempt.keys_are_unique and not traits.enforces_keys -%}
        {%- set limit = plan.get('backfill_rate_limit') if dbt_backfill.kind_reads_range(plan) else none %}
        set checked = ({{ dbt_backfill.get_key_check_sql(
            scan, total, plan.key, plan.vnode_count, check_key, many=limit is none or limit > 100000
        ) }});
        {%- endif %}
        {%- if overlay %}
        end if;
        {%- endif %}
        if {{ conditions | join(' and ') or 'true' }} then
            {%- if backfill.options.file_format == 'iceberg' %}
            {{ dbt_backfill.get_execute_with_literals_sql(dbt_backfill.get_mark_statement(plan.backfill_id, plan.plan_id), {}) }};
            {%- endif %}
            {%- if state.get('missing') %}
            {{ dbt_backfill.get_create_statements(backfill, state.committed, columns, counted) }}
            select concat(
                '{', {%- if scan %} '"checked":', to_json(checked), ',', {%- endif %} '"plan":', coalesce(stored_plan, 'null'), '}'
            );
            {%- else %}
            {{ dbt_backfill.get_store_plan_statements(backfill, counted, known) }}
            {%- endif %}
        else
            select to_json(struct({{ ((['lost'] if handler else []) + known) | join(', ') }}));
        end if;
    end
{%- endmacro %}


{#- Return a select of the upstream's rows that a plan reads, to check their keys; none if the plan reads no rows. -#}
{% macro get_checked_scan(backfill, state, plan) %}
    {%- set slice, keys = dbt_backfill.kind_of(plan).slice, plan.key -%}
    {%- set with_null_keys = not dbt_backfill.upstream_traits(backfill.upstream).enforces_keys -%}
    {#- The rows are not counted yet, so the positions show if the range has rows. -#}
    {%- if slice == 'insert' and (plan.last_range or plan.get('range_high') != plan.get('range_low')) -%}
        {%- set read = dbt_backfill.get_range_read(backfill, plan) -%}
        {{ return(dbt_backfill.get_range_scan_sql(read, plan, state, backfill, keys, with_null_keys=with_null_keys)) }}
    {#- With a rate limit of 0 the second position does not move. -#}
    {%- elif slice == 'replace' and (plan.get('last_fill') or plan.get('fill_high') != plan.get('fill_low')) -%}
        {%- set read, window = dbt_backfill.get_planned_read(backfill, plan), dbt_backfill.get_fill_window(plan) -%}
        {{ return(dbt_backfill.get_range_scan_sql(read, window, state, backfill, keys)) }}
    {%- elif slice == 'all' and plan.get('touched') is none -%}
        {%- set read = dbt_backfill.get_planned_read(backfill, plan) -%}
        {{ return(dbt_backfill.get_prefix_scan_sql(read, state, backfill, keys, with_null_keys=with_null_keys)) }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#- True if a plan may read a range or a window of the snapshot. -#}
{% macro kind_reads_range(plan) %}
    {{ return(dbt_backfill.kind_of(plan).slice in ['insert', 'replace']) }}
{% endmacro %}


{#-
    Return the plan with the entry `counted`: the numbers of rows that the script counts into its variable `checked`, see get_plan_json_sql. If the
    changes and the range have at most 100,000 rows each, one MERGE writes both. Otherwise the range gets a MERGE of its own, without clauses for
    existing rows. On Delta this is faster for many rows.

    Arguments:
      staged (boolean): true if the script also counts the changes, in `merged`.
      overlaid (boolean): true if the range is read from a copy with an overlay of later changes. One statement must not read both the overlay and the
        changes to merge. If a query calls table_changes twice for one table, Spark reads the versions of the first call for both calls (seen with
        Spark 4.1 and Delta 4.3).
-#}
{% macro get_counted_plan(plan, staged, overlaid) %}
    {%- set counts = dict(plan.get('counted') or {}, upstream_row_count='checked.upstream_row_count') -%}
    {%- if dbt_backfill.kind_reads_range(plan) -%}
        {%- do counts.update({'range_row_count': 'checked.row_count', 'vnode_row_counts': 'checked.vnode_row_counts'}) -%}
        {%- if plan.get('fills') -%}
            {%- do counts.update({'filled_row_count': plan.filled_row_count ~ ' + checked.row_count'}) -%}
        {%- elif staged and not plan.sweeps and not overlaid -%}
            {%- do counts.update({'at_once': 'checked.row_count > 0 and merged.upserts + merged.drops > 0 '
                ~ 'and greatest(checked.row_count, merged.upserts + merged.drops) <= 100000'}) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(dict(plan, counted=counts)) }}
{% endmacro %}


{#-
    Return a select of one struct about the rows of a scan: {'row_count', 'null_keys', 'duplicates': true if a key may occur twice,
    'vnode_row_counts', 'upstream_row_count'}. The select needs one pass over the key columns, or two passes if many rows are read.

    Rows are grouped by the hash from which the vnode is computed: one bigint instead of the key's columns. Different keys with the same hash look
    like duplicates here. So if there are duplicates, `get_duplicate_keys_sql` compares the keys themselves.

    Arguments:
      scan (string): a select of the rows.
      total (string): a SQL expression of the upstream's number of rows.
      check_key (boolean): false to count only the rows per vnode, which needs no shuffle of the keys.
      many (boolean): true if so many rows are read that a separate pass for the duplicates is cheaper, see get_twice_by_words_sql.
-#}
{% macro get_key_check_sql(scan, total, keys, vnode_count, check_key, many=false) -%}
    {#- Use the last column of the key that is a whole number or a date: neighbouring rows in the order of the key have close values in this
        column. -#}
    {%- set numbers = keys | selectattr('type', 'in', ['tinyint', 'smallint', 'int', 'bigint', 'date']) | list if check_key and many else [] -%}
    {%- set by_hash = check_key and not numbers -%}
    select named_struct(
        'upstream_row_count', {{ total }},
        'row_count', coalesce(sum(row_count), 0),
        'null_keys', coalesce(sum(null_keys), 0),
        'duplicates', {{ dbt_backfill.get_twice_by_words_sql(scan, keys, numbers[-1]) if numbers else 'coalesce(max(most), 0) > 1' }},
        'vnode_row_counts', map_from_entries(collect_list(struct(vnode, row_count)))
    )
    from (
        select
            cast(pmod(hash, {{ vnode_count }}) as int) as vnode,
            sum(row_count) as row_count,
            sum(null_keys) as null_keys,
            max({{ 'row_count' if by_hash else '0' }}) as most
        from (
            select
                hash,
                {{ 'count(*)' if by_hash else '1' }} as row_count,
                {{ 'count_if(null_key)' if by_hash else 'int(null_key)' }} as null_keys
            from (
                select
                    {{ dbt_backfill.key_hash_expression(keys) }} as hash,
                    {{ dbt_backfill.null_key_predicate(dbt_backfill.upstream_columns(keys)) }} as null_key
                from ({{ scan }})
            )
            {{ 'group by hash' if by_hash }}
        )
        group by vnode
    )
{%- endmacro %}


{#-
    Return the part of a script that reads changes. Lost changes are found only when they are read, because the log does not always record a VACUUM or
    a change of columns. The read is a statement of its own, such as CACHE TABLE. If a query that sets a variable read the changes, its error would
    have no condition, and no handler could catch the error. `handler`: the error conditions that mean lost changes, see the trait `lost_conditions`;
    `then`: the statement to execute if the changes are lost.
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
