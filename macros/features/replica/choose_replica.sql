{#-
    The replicated arrangement: `<mv>__replica`, a copy of the rows of the upstream that are still to be read, with the columns that
    the query needs, in files ordered by the key, as many as ranges are ahead. Without it each range of an upstream that is not
    ordered by its key reads all of it.

    It is a way to the rows of a range and no more: what a plan says does not depend on it. A range is the replica's rows with the
    changes since its version laid over them, see get_copied_source; where that cannot be told, or a plan is adopted, the upstream itself is
    read. A plan carries it as the source of the role `replica`: {
      'relation', 'kind', 'id': of its making, 'version': of the table; none where it is not to be read any more,
      'definition': as JSON {
        'version': that of the upstream that it shows, as text, 'query_hash' and 'query_columns', of the query that it was made for,
        'vnodes', 'vnode_count': those that it has rows of, 'columns': the names of those of the upstream that it has,
        'ranges': how many ranges it has still rows of; none for all,
        'scans': see get_bounds_sql; none if that is not known
      }
    }
-#}


{#-
    The source of the role `replica` of the committed plan, if what is read next can be read from it; none if not.

    Arguments:
      seen (string or none): the id of the one that this run has made, or found to be there.
-#}
{% macro find_replica(backfill, state, observed, seen=none) %}
    {%- set source = dbt_backfill.get_source(state.committed, 'replica') -%}
    {%- if not source or source.get('version') is none or not dbt_backfill.may_replicate(backfill) -%} {{ return(none) }} {%- endif -%}
    {%- set noted = fromjson(source.definition) -%}
    {%- set upstream = dict(dbt_backfill.get_source(state.committed), version=noted.version) -%}
    {%- set fits_query = noted.query_hash == backfill.query_hash and noted.query_columns == state.committed.query_columns -%}
    {#- It has the rows of the vnodes that are read; a part of it is counted in ranges, and so has to be followed by ranges of that size. -#}
    {%- set selected = backfill.options.backfill_vnodes -%}
    {%- set fits_ranges = noted.vnode_count == state.committed.vnode_count
        and (noted.ranges is none or noted.ranges > 0 and state.committed.get('backfill_rate_limit') == backfill.options.backfill_rate_limit)
        and (noted.vnodes is none or selected is not none and selected | reject('in', noted.vnodes) | list == []) -%}
    {%- if source.relation != backfill.replica.render() or not fits_query or not fits_ranges
            or not dbt_backfill.ask(backfill.upstream, 'continues_upstream')(observed, upstream)
            or dbt_backfill.load_table(backfill.replica) is none -%}
        {{ return(none) }}
    {%- endif -%}
    {#- Another run may have made another one since; and who compacts all tables of a schema may expire what they were before. -#}
    {%- if seen == source.id -%} {{ return(source) }} {%- endif -%}
    {{ return(source if dbt_backfill.read_replica(backfill) == {'id': source.id, 'version': source.version} else none) }}
{% endmacro %}


{#- Whether a replica can be made at all, and the model lets it. -#}
{% macro may_replicate(backfill) %}
    {{ return(backfill.options.replicate != 'never' and dbt_backfill.why_no_replica(backfill.upstream, backfill.feed, backfill.options) is none) }}
{% endmacro %}


{#-
    Why no replica can be made, see make_replica; none if one can. It has the format of the upstream: another one gives back other types
    than it was given. A change table of the user's own may be shortened by its owner. What keys stand twice has to be looked for,
    because the feed need not tell that one of two rows went.
-#}
{% macro why_no_replica(upstream, feed, options) %}
    {%- set name, format = upstream.relation.render(), dbt_backfill.upstream_traits(upstream).copy_format -%}
    {{ return(name ~ ' is a live table' if format is none
        else 'the changes of ' ~ name ~ ' are told by ' ~ feed.relation.render() if feed
        else 'file_format is ' ~ options.file_format ~ ', while ' ~ name ~ ' is ' ~ format if format != options.file_format
        else 'check_key is false' if not options.check_key else none) }}
{% endmacro %}


{#-
    Part of planning: the chosen plan with a source of the role `replica`, where its range is to be read from one, which is made now
    if there is none. Returns the choice, with 'copy': the source that is to be read; absent where the upstream itself is.

    Arguments:
      found (dict or none): what find_replica returned.
-#}
{% macro choose_replica(backfill, state, choice, found) %}
    {%- set plan, last = choice.plan, dbt_backfill.get_source(state.committed, 'replica') -%}
    {#- Once, for release_replica: of a run that died after the last range it may be there. -#}
    {%- if state.finished -%}
        {{ return(dbt_backfill._with_source(choice, dbt_backfill._get_void(last)) if last and last.get('version') is not none else choice) }}
    {%- endif -%}
    {%- set without = dbt_backfill._with_source(choice, dbt_backfill._get_void(last)) -%}
    {%- if not dbt_backfill.may_replicate(backfill) -%} {{ return(without) }} {%- endif -%}
    {%- if plan.kind != 'advance' or not dbt_backfill.moves_position(plan) -%}
        {#- A part is counted in ranges, and so in bounds. -#}
        {%- set keeps_it = found and plan.kind in ['advance', 'fill']
            and (dbt_backfill.is_whole(found) or plan.get('next_bounds') == state.committed.get('next_bounds')) -%}
        {{ return(dbt_backfill._with_source(choice, found) if keeps_it else without) }}
    {%- endif -%}
    {%- set evidence = plan.get('evidence') or dbt_backfill.get_known_evidence(state, last) -%}
    {%- set has_it = found and plan.query_columns == fromjson(found.definition).query_columns
        and (dbt_backfill.is_whole(found) or not plan.get('evidence') and not plan.last_range) -%}
    {%- set wanted = not has_it and dbt_backfill.wants_replica(backfill, plan, evidence) -%}
    {%- if not has_it and evidence and evidence.get('scans') is not none and dbt_backfill.count_ranges_ahead(plan) > 1 -%}
        {%- do log(
            dbt_backfill.get_model_name(model) ~ ': ' ~ dbt_backfill.get_scans_text(backfill, plan, evidence)
                ~ (', so they are copied, ordered by the key' if wanted else ', which is too little for a copy'),
            info=wanted
        ) -%}
    {%- endif -%}
    {%- set source = found if has_it else dbt_backfill.make_replica(backfill, state, plan, evidence) if wanted else none -%}
    {%- if not source -%} {{ return(without) }} {%- endif -%}
    {%- set noted = fromjson(source.definition) -%}
    {%- set carried = dict(source, definition=tojson(dict(noted, ranges=noted.ranges - 1))) if noted.ranges else source -%}
    {{ return(dict(dbt_backfill._with_source(choice, carried), copy=source)) }}
{% endmacro %}


{% macro _with_source(choice, source) %}
    {%- if not source -%} {{ return(choice) }} {%- endif -%}
    {{ return(dict(choice, plan=dict(choice.plan, sources=choice.plan.sources + [source]))) }}
{% endmacro %}


{#- What is left of a replica that is not to be read any more: how often the upstream would be read without one. -#}
{% macro _get_void(source) %}
    {{ return(dict(source, version=none) if source else none) }}
{% endmacro %}


{#- What is known of it where the bounds were found before: {'scans', 'rows': how many rows are still to be read}; none if nothing is. -#}
{% macro get_known_evidence(state, source) %}
    {%- set scans = fromjson(source.definition).get('scans') if source else none -%}
    {{ return({'scans': scans, 'rows': (state.committed.get('upstream_row_count') or 0) - state.row_count} if scans else none) }}
{% endmacro %}


{#-
    True if a plan without a replica gets one. To copy the upstream and read the copy costs about as much as three scans of it, and one
    more for each further part; `auto` makes one if the ranges ahead would read many more rows in vain.
-#}
{% macro wants_replica(backfill, plan, evidence) %}
    {%- set ahead = dbt_backfill.count_ranges_ahead(plan) -%}
    {%- if ahead == 1 or backfill.options.replicate != 'auto' -%} {{ return(ahead > 1 and backfill.options.replicate == 'always') }} {%- endif -%}
    {%- if not evidence or evidence.get('scans') is none -%} {{ return(false) }} {%- endif -%}
    {%- set spared = [evidence.scans, ahead] | min - dbt_backfill._get_scans_of_copy(backfill, plan) -%}
    {#- So many rows have to be read in vain until a replica is worth its statements. -#}
    {{ return(spared * evidence.rows >= 10000000) }}
{% endmacro %}


{#- As many scans of the upstream as a copy costs, by docs/replica.md. -#}
{% macro _get_scans_of_copy(backfill, plan) %}
    {{ return(2 + dbt_backfill.count_parts(backfill, plan)) }}
{% endmacro %}


{#- How many parts the ranges ahead would be copied in. -#}
{% macro count_parts(backfill, plan) %}
    {%- set ahead, per_part = dbt_backfill.count_ranges_ahead(plan), dbt_backfill._count_ranges_of_part(backfill, plan) -%}
    {{ return((ahead / per_part) | round(0, 'ceil') | int if per_part else 1) }}
{% endmacro %}


{#-
    How many ranges a part has, by the option `replica_rows`; none where a replica is made of all that are ahead: also where some vnodes are to move,
    whose bounds are found anew for each barrier, while a part ends with a bound of before.
-#}
{% macro _count_ranges_of_part(backfill, plan) %}
    {%- set limit, range_size = backfill.options.get('replica_rows'), backfill.options.backfill_rate_limit -%}
    {%- set is_divided = limit and range_size and plan.get('vnodes') is none -%}
    {{ return([limit // range_size, 1] | max if is_divided else none) }}
{% endmacro %}


{#- How many of the ranges ahead the next replica has; none for all of them. It ends no later than the last bound that is known. -#}
{% macro count_ranges_of_replica(backfill, plan, bounds) %}
    {%- set most = dbt_backfill._count_ranges_of_part(backfill, plan) -%}
    {%- if most is none or most > bounds | length and plan.bounds_complete -%} {{ return(none) }} {%- endif -%}
    {{ return([most, bounds | length] | min) }}
{% endmacro %}


{#-
    Such as `40 ranges ahead would read 39.8 times the 15,000,000 rows of shop.orders that are left: 597,000,000 rows in all, where a
    copy costs about as much as 45,000,000`.
-#}
{% macro get_scans_text(backfill, plan, evidence) %}
    {%- set scans = [evidence.scans, dbt_backfill.count_ranges_ahead(plan)] | min -%}
    {{ return(dbt_backfill.get_ranges_text(plan) ~ ' ahead would read ' ~ '{:,.1f}'.format(scans) ~ ' times the '
        ~ '{:,}'.format(evidence.rows) ~ ' rows of ' ~ backfill.upstream.relation.render() ~ ' that are left: '
        ~ '{:,.0f}'.format(scans * evidence.rows) ~ ' rows in all, where a copy costs about as much as '
        ~ '{:,}'.format(dbt_backfill._get_scans_of_copy(backfill, plan) * evidence.rows)) }}
{% endmacro %}


{#- How many ranges are known to be ahead, that of the plan among them. -#}
{% macro count_ranges_ahead(plan) %}
    {{ return((plan.get('next_bounds') or []) | length + (1 if plan.last_range else 2)) }}
{% endmacro %}


{#- Such as `40 ranges`; the bounds of more than so many are found later. -#}
{% macro get_ranges_text(plan) %}
    {%- set ahead = dbt_backfill.count_ranges_ahead(plan) -%}
    {{ return(('' if plan.get('bounds_complete') or plan.last_range else 'more than ') ~ dbt_backfill.get_count_text(ahead, 'range')) }}
{% endmacro %}
