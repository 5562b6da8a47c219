{#-
    The contract of an upstream: what barriers ask of it, as a macro here, which each kind answers in `upstream/<kind>/` by
    the macro `<kind>_<question>`, see of_kind. Nothing outside that folder knows more of a kind, and docs/new_upstream.md
    says what a new one has to keep.

    A version is opaque: text that the kind gave, which only the kind orders and renders. Others store it, hand it back, and
    compare it for equality. Whatever else a kind puts into `observed` is its own.

    Arguments that several take:
      upstream      {'relation', 'kind'}: an upstream, or a change table of the user's own; what else is in it is the kind's
      observed      what read_upstream returned in this run
      source        what a plan notes of an upstream: {'relation', 'kind', 'id', 'version', 'committed_at'}; relation is text
      committed     the source of the plan that changes are read from; of upstream_gap and check_followed see get_followed_source

    The questions:
      read_upstream(upstream, since, log)                      what there is now: a version, and the way to it from another
      check_feed(observed)                                     refuse a table whose changes cannot be followed
      check_key_order(upstream, columns)                       refuse texts as a key that the kind orders otherwise than Spark
      upstream_read(upstream, version)                         the table at a version
      upstream_changes(observed, from_version, to_version, keys, view)   the change events between two versions
      upstream_gap(observed, committed)                        why the feed does not reach from a version to the current one, see new_gap
      continues_upstream(observed, committed)                  whether it is the same table as then, and has gone on from there
      forgets_keys(observed, committed, source)                whether the feed may not tell of a key that came with a version, and went
      upstream_readable(observed, source)                      whether a version can still be read
      upstream_lag(observed, source)                           how far a version is behind the current one
      committed_at(observed, version)                          when a version was committed
      held_version(observed, name)                             the version that is held under a name
      hold(source, name)                                       keep a version from going away; whether it is kept
      release(source, name)                                    let it go
      row_count_sql(upstream, version)                         how many rows a version has, about
      byte_count(upstream)                                     how many bytes its files have now; none if that is not known
      log_sql(upstream)                                        what read_upstream can be told by the statement that reads the state
      lost_conditions()                                        how Spark says that changes are gone
      may_be_cached()                                          whether a catalog may show a version that is not the current one
      reads_by_zone(observed, columns)                         whether one of these columns, of timestamps, is another moment in another zone of the session
      takes_added_columns()                                    whether the table may get another column without a gap
      needed_feed(upstream, options, sql)                      the change table without which it tells no changes
      stages_ranges()                                          whether no version can be read again
      copy_format()                                            the file_format of a table that keeps its rows as they are; none if none does
      copy_properties(source)                                  the properties without which such a table could not have its columns

    Of a kind that stages ranges, which is a live database, what a barrier reads is read once, while it is planned, see
    run_stage. That is asked, and of no other kind:
      noted_feed(source)                                       the change table, of what a plan notes
      enforces_keys()                                          whether the system keeps keys unique and free of nulls
      bounds_sql(upstream, keys, window, counts)               the keys that are so many rows further in a window
      stage_script(upstream, scan, staged)                     reads it
      wait_script(upstream, observed, noted, stage, seconds)          waits until the feed tells what it may show
      staged_doubt(observed, plan, waited)                     why it cannot be told what was read, by what wait_script told
      staged_read(upstream, version, stage, keys)              what was read, at a version
      land_feed(upstream)                                      land what changed, where nothing else has to
      check_query(explained, query)                            refuse a query that gives other rows of the table than of its changes
      check_staged(upstream, observed, plan, columns, name)    refuse what cannot be read right
      check_followed(observed, committed)                      refuse what cannot be followed any more, where nothing is read of it
      check_stage_reached(upstream, observed, read, name)      refuse what was read, as stage_script tells, of another database than the feed's
-#}
{% macro upstream_kinds() %}
    {{ return(dbt_backfill.versioned_kinds() + ['postgres']) }}
{% endmacro %}


{#- Those that a version of can be read again, also of a change table. -#}
{% macro versioned_kinds() %}
    {{ return(['delta', 'iceberg']) }}
{% endmacro %}


{#-
    {
      'version': the current one; what is committed until then is in it, and nothing that is committed later,
      'committed_at': when, as text; none if it is not known,
      'id': text that differs once the kind takes the table for another one, or for one that is followed otherwise,
      'altered': whether the table may have columns by now that it has not in this version; absent if that cannot be,
      and whatever else the kind's own answers need
    }

    Arguments:
      since (dict or none): the source of the committed plan; none if nothing was read yet.
      log (list or none): what get_upstream_log_sql gave, none if the state was read without it.
-#}
{% macro read_upstream(upstream, since, log=none) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'read_upstream')(upstream, since, log)) }}
{% endmacro %}


{#- Asked of what read_upstream returned, where that could tell more than was known before. -#}
{% macro check_upstream_feed(upstream, observed) %}
    {%- do dbt_backfill._of_upstream(upstream, 'check_feed')(observed) -%}
{% endmacro %}


{#- `columns` are those of the key that Spark takes for strings. -#}
{% macro check_upstream_key_order(upstream, columns) %}
    {%- do dbt_backfill._of_upstream(upstream, 'check_key_order')(upstream, columns) -%}
{% endmacro %}


{#- A relation expression, as it stands after FROM. It gives the same rows whenever it is read. -#}
{% macro get_upstream_read(upstream, version) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'upstream_read')(upstream, version)) }}
{% endmacro %}


{#-
    The changes in (from_version, to_version]: {
      'events': a select of the upstream's columns, and of
        __bf_version    orders the events of one key
        __bf_is_upsert  an insert or after-image, against a delete or before-image
      'declarations', 'setup': statements of the script that reads it, at its beginning and before that, each absent
        if there is none,
      'literals': variables of the script in `events` that stand for their text, absent if there are none,
      'views': temporary views that the setup makes, absent if there are none,
      'one_commit': whether each key has only what one commit did to it, or the difference of two versions; absent if not,
      'tells_before': whether a row that goes, or is updated, is told as it was, with all of its columns; absent if not,
      'alters_values': whether it may have other values than the table, see altered_predicate; absent if not,
      'may_repeat': whether a key may be inserted twice in it, absent if that cannot be
    }

    Arguments:
      keys (list[dict]): none for rows that are only added.
      view (string): the name of the temporary view that the kind may make, an identifier. Models share a session, so no other plan
        may have it.
-#}
{% macro get_upstream_changes(upstream, observed, from_version, to_version, keys, view) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'upstream_changes')(observed, from_version, to_version, keys, view)) }}
{% endmacro %}


{#- As new_gap makes it; none if every change between is in the feed. What cannot be known yet is in get_lost_conditions. -#}
{% macro find_upstream_gap(upstream, observed, committed) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'upstream_gap')(observed, committed)) }}
{% endmacro %}


{#-
    A gap of a feed: {
      'reason': as the end of a sentence,
      'refusal': {'fact', 'change'}, as refuse takes them, where changes cannot be followed from the current version on
        either; none as a rule
    }
-#}
{% macro new_gap(reason, refusal=none) %}
    {{ return({'reason': reason, 'refusal': refusal}) }}
{% endmacro %}


{#- Less than find_upstream_gap asks: where a change table tells the changes, the upstream's own feed is not needed. -#}
{% macro continues_upstream(upstream, observed, committed) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'continues_upstream')(observed, committed)) }}
{% endmacro %}


{#-
    Whether the feed from the version of `committed` to the current one may leave out a key that was there in that of
    `source`, between them: one that compares two versions knows nothing of what came and went.
-#}
{% macro may_forget_keys(upstream, observed, committed, source) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'forgets_keys')(observed, committed, source)) }}
{% endmacro %}


{% macro is_upstream_readable(upstream, observed, source) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'upstream_readable')(observed, source)) }}
{% endmacro %}


{#-
    {'versions': how many versions have been committed since that of the source, 'since': when the first of them was, as text, none
    if there is none}; none where the way from there to the current one is not known any more.
-#}
{% macro get_upstream_lag(upstream, observed, source) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'upstream_lag')(observed, source)) }}
{% endmacro %}


{#- As text; none if it is not known any more. -#}
{% macro get_version_time(upstream, observed, version) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'committed_at')(observed, version)) }}
{% endmacro %}


{#- For ranges that are read from a copy, see make_replica. -#}
{% macro get_copy_format(upstream) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'copy_format')()) }}
{% endmacro %}


{#- A dict. Asked of a kind that has such a format. -#}
{% macro get_copy_properties(upstream, source) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'copy_properties')(source)) }}
{% endmacro %}


{#- Of all columns; an integer. -#}
{% macro get_byte_count(upstream) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'byte_count')(upstream)) }}
{% endmacro %}


{#- A scalar subquery, for people and for samples: it may tell some more than there are, or be null where that is not known. -#}
{% macro get_row_count_sql(upstream, version) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'row_count_sql')(upstream, version)) }}
{% endmacro %}


{#- Read off what read_upstream returned, so that one is found that a run which died has left; none if there is none. -#}
{% macro get_held_version(upstream, observed, name) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'held_version')(observed, name)) }}
{% endmacro %}


{#- A kind that cannot, or need not, does nothing. To hold another version under a name lets the one before go. -#}
{% macro hold_version(upstream, source, name) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'hold')(source, name)) }}
{% endmacro %}


{% macro release_version(upstream, source, name) %}
    {%- do dbt_backfill._of_upstream(upstream, 'release')(source, name) -%}
{% endmacro %}


{#- A scalar subquery for read_upstream's `log`, which spares a statement; none if the kind has none. -#}
{% macro get_upstream_log_sql(upstream) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'log_sql')(upstream)) }}
{% endmacro %}


{#-
    The conditions of a script's handler by which Spark says that changes cannot be read any more; none of a kind whose
    errors have none.
-#}
{% macro get_lost_conditions(upstream) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'lost_conditions')()) }}
{% endmacro %}


{% macro may_be_cached(upstream) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'may_be_cached')()) }}
{% endmacro %}


{#- `columns`: the names of those of the type `timestamp` that are read. -#}
{% macro reads_by_zone(upstream, observed, columns) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'reads_by_zone')(observed, columns)) }}
{% endmacro %}


{#-
    Then a query with a star in an expression has to be compared with the columns that it had, and one that reads an alias of its own
    with those that could take its place.
-#}
{% macro takes_added_columns(upstream) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'takes_added_columns')()) }}
{% endmacro %}


{#-
    The change table that the model's change_feed names, where the kind cannot be followed without one, and answers from it itself;
    none where it can. `options` is what read_change_feed returned.
-#}
{% macro get_needed_feed(upstream, options, sql) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'needed_feed')(upstream, options, sql)) }}
{% endmacro %}


{% macro get_noted_feed(upstream, source) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'noted_feed')(source) if dbt_backfill.stages_ranges(upstream) else none) }}
{% endmacro %}


{#- Then neither is looked for: the condition for nulls would keep a database from its index. -#}
{% macro enforces_keys(upstream) %}
    {{ return(dbt_backfill.stages_ranges(upstream) and dbt_backfill._of_upstream(upstream, 'enforces_keys')()) }}
{% endmacro %}


{#-
    A select of JSON, {'bounds': of each count the key as literals' texts, null where there are fewer rows}, of a kind that finds
    them faster than by a pass over the keys; none of others.

    Arguments:
      window (string): a predicate over the key.
      counts (list of integer): that of the n-th row in the order of the backfill, of each n.
-#}
{% macro get_key_bounds_sql(upstream, keys, window, counts) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'bounds_sql')(upstream, keys, window, counts) if dbt_backfill.stages_ranges(upstream) else none) }}
{% endmacro %}


{% macro stages_ranges(upstream) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'stages_ranges')()) }}
{% endmacro %}


{#- See postgres_stage_script, which says what such a script tells. -#}
{% macro get_stage_script(upstream, scan, staged) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'stage_script')(upstream, scan, staged)) }}
{% endmacro %}


{#- See postgres_wait_script. -#}
{% macro get_wait_script(upstream, observed, noted, stage, seconds) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'wait_script')(upstream, observed, noted, stage, seconds)) }}
{% endmacro %}


{#- As the end of a sentence; none if it is clear. -#}
{% macro find_staged_doubt(upstream, observed, plan, waited) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'staged_doubt')(observed, plan, waited)) }}
{% endmacro %}


{#- Whether the feed was brought up to date by it; a feed that something else lands is waited for. -#}
{% macro land_feed(upstream) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'land_feed')(upstream)) }}
{% endmacro %}


{#- A relation expression: the rows that were staged for a plan, as they are at a version. -#}
{% macro get_staged_read(upstream, version, stage, keys) %}
    {{ return(dbt_backfill._of_upstream(upstream, 'staged_read')(upstream, version, stage, keys)) }}
{% endmacro %}


{#- `explained`: see explain_query. -#}
{% macro check_upstream_query(upstream, explained, query) %}
    {%- if dbt_backfill.stages_ranges(upstream) -%} {%- do dbt_backfill._of_upstream(upstream, 'check_query')(explained, query) -%} {%- endif -%}
{% endmacro %}


{#- `columns`: those that are read, {'name', 'type'}; `name`: the model's. -#}
{% macro check_staged(upstream, observed, plan, columns, name) %}
    {%- do dbt_backfill._of_upstream(upstream, 'check_staged')(upstream, observed, plan, columns, name) -%}
{% endmacro %}


{#- Of other kinds check_feed and upstream_gap say it. -#}
{% macro check_followed(upstream, observed, committed) %}
    {%- if dbt_backfill.stages_ranges(upstream) -%} {%- do dbt_backfill._of_upstream(upstream, 'check_followed')(observed, committed) -%} {%- endif -%}
{% endmacro %}


{% macro check_stage_reached(upstream, observed, read, name) %}
    {%- do dbt_backfill._of_upstream(upstream, 'check_stage_reached')(upstream, observed, read, name) -%}
{% endmacro %}


{% macro _of_upstream(upstream, question) %}
    {{ return(dbt_backfill.of_kind(upstream.kind, question)) }}
{% endmacro %}
