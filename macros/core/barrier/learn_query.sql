{#-
    Return what a run knows of the model's query from Spark, once for all of its barriers; here, that it knows nothing yet: {
      'explained': true once the query was explained; until then all that a run knows is what the last plan says,
      'key': a list of {'name', 'upstream', 'type'},
      'columns': the columns of the query, as text,
      'used_settings': the settings on which the query depends, see find_used_settings, the MV's table, see depends_on_zone, or what the
        query reads, see learn_time_zone,
      'moments': the names of the upstream's columns of the type `timestamp` that it reads; none once learn_time_zone has looked at them,
      'drops_rows': whether it may return none for a row, as far as the run knows,
      'read_columns': those of the upstream that it reads, see find_read_columns; none for any,
      'version': of the upstream, for which the query was explained; none for no certain one,
      'upstream_columns': the names of the upstream's columns at it; none where they are not known, or need not be,
      'feed_columns': see get_feed_columns; none until they are known, or where the upstream's own feed is followed,
      'key_order_checked': see check_key_order,
      'copy_id': of the copy of the upstream that exists, see before_choice; none until it was looked for
    }

    Each macro that finds out more returns another such dict.
-#}
{% macro new_learned() %}
    {{ return({
        'explained': false, 'key': none, 'columns': none, 'used_settings': [], 'moments': none, 'drops_rows': true, 'read_columns': none,
        'version': none, 'upstream_columns': none, 'feed_columns': none, 'key_order_checked': false, 'copy_id': none,
    }) }}
{% endmacro %}


{#-
    Analyze the model's query, and refuse one that cannot be followed, also because a change table has not the upstream's columns.

    Arguments:
      version: of the upstream, that is to be read; none if it is not known yet. The table may have got columns since that version, so
        the query is explained over the version.
-#}
{% macro learn_query(backfill, learned, version=none) %}
    {%- if learned.explained -%} {{ return(learned) }} {%- endif -%}
    {%- set upstream, traits = backfill.upstream.relation, dbt_backfill.upstream_traits(backfill.upstream) -%}
    {%- set is_at_version = version is not none and traits.takes_added_columns and not traits.stages_ranges -%}
    {%- set explained = dbt_backfill.explain_query(
        backfill.query, upstream, backfill.options.unique_key,
        dbt_backfill.ask(backfill.upstream, 'upstream_read')(backfill.upstream, version) if is_at_version else upstream.render()
    ) -%}
    {%- do dbt_backfill.check_query(explained, backfill.query, upstream, traits.takes_added_columns) -%}
    {%- if traits.stages_ranges -%} {%- do dbt_backfill.ask(backfill.upstream, 'check_query')(explained) -%} {%- endif -%}
    {%- set used, zone = dbt_backfill.find_used_settings(explained, backfill.query), 'spark.sql.session.timeZone' -%}
    {%- if zone not in used and dbt_backfill.depends_on_zone(backfill, dbt_backfill.parse_columns(explained.columns)) -%}
        {%- set used = used + [zone] -%}
    {%- endif -%}
    {%- set read = dbt_backfill.find_read_columns(explained) -%}
    {%- set columns_read = explained.upstream_columns if read is none else read -%}
    {%- set learned = dbt_backfill.learn_feed_columns(backfill, dict(
        learned, explained=true,
        key=dbt_backfill.key_lineage(explained, explained.unique_key, backfill.options.upstream_key),
        columns=explained.columns, used_settings=used,
        moments=columns_read | selectattr('type', 'equalto', 'timestamp') | map(attribute='name') | list,
        drops_rows='- Filter ' in explained.analyzed | join('\n'), read_columns=read,
        version=version, upstream_columns=explained.upstream_columns | map(attribute='name') | list if is_at_version else none,
    )) -%}
    {#- The contract is of today's query, and not of the one by which the MV in use was made. -#}
    {%- if dbt_backfill.get_config().get('contract').enforced and backfill.generation != 'former' -%}
        {%- do get_assert_columns_equivalent(backfill.sql) -%}
    {%- endif -%}
    {{ return(learned) }}
{% endmacro %}


{#-
    Analyze the query for a version of the upstream that is to be read, the current one as a rule; once more if the feed does not list all
    changes.

    Arguments:
      anew (boolean): true if what was found at another version may be wrong by now.
-#}
{% macro learn_query_at(backfill, learned, version, anew=false) %}
    {%- set is_old = anew and learned.version != version -%}
    {{ return(dbt_backfill.learn_query(backfill, dict(learned, explained=false, feed_columns=none) if is_old else learned, version)) }}
{% endmacro %}


{#-
    Add the session's time zone to the settings, if what the query reads depends on it. The tables are asked before anything is read,
    after a gap, and for another query; else the last plan says it: only who replaces the upstream partitions it otherwise.
-#}
{% macro learn_time_zone(backfill, state, observed, learned, anew) %}
    {%- set zone, names = 'spark.sql.session.timeZone', learned.get('moments') -%}
    {%- if not names or zone in learned.used_settings -%} {{ return(learned) }} {%- endif -%}
    {%- set depends = [zone] if zone in (state.committed.get('settings') or {}) else [] -%}
    {%- if anew or state.get('upstream_version') is none or state.committed.query_hash != backfill.query_hash -%}
        {%- for table, seen in [(backfill.upstream, observed), (backfill.feed, observed.get('feed'))]
                if table and dbt_backfill.upstream_traits(table).may_read_by_zone -%}
            {%- if not depends and dbt_backfill.ask(table, 'reads_by_zone')(seen, names) -%} {%- do depends.append(zone) -%} {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(dict(learned, moments=none, used_settings=learned.used_settings + depends)) }}
{% endmacro %}


{#- Look up the columns with which events of the user's own change table are read, if there is one. -#}
{% macro learn_feed_columns(backfill, learned) %}
    {%- if not backfill.feed or learned.feed_columns is not none -%} {{ return(learned) }} {%- endif -%}
    {{ return(dict(learned, feed_columns=dbt_backfill.get_feed_columns(backfill.feed))) }}
{% endmacro %}


{#-
    Refuse a version over which the query does not run. Iceberg reads a snapshot with the columns that the table had when it was
    written, and an ALTER makes no snapshot.
-#}
{% macro check_query_at(backfill, observed, learned, version) %}
    {%- if not observed.get('altered') -%} {{ return(none) }} {%- endif -%}
    {%- set scan = 'select * from ' ~ dbt_backfill.ask(backfill.upstream, 'upstream_read')(backfill.upstream, version) -%}
    {%- set found = dbt_backfill.explain_comparably(backfill, backfill.query, scan=scan) -%}
    {%- if found is not none and found.columns == learned.columns -%} {{ return(none) }} {%- endif -%}
    {%- set upstream = backfill.upstream.relation.render() -%}
    {%- if observed.get('version', version) != version -%}
        {%- do dbt_backfill.refuse(
            'version ' ~ version ~ ' of ' ~ upstream ~ ', which is pinned, does not have the columns that the query reads',
            "Let the backfill come to its end first, or set another backfill_mode than 'snapshot'"
        ) -%}
    {%- endif -%}
    {%- do dbt_backfill.refuse(
        'the columns of ' ~ upstream ~ ' were changed, and its snapshot ' ~ version ~ ' does not have those that the query reads',
        'Write to it, so that it has a snapshot with its columns of today; an INSERT of no rows will do'
    ) -%}
{% endmacro %}


{#-
    Refuse a key that a table orders otherwise than Spark, so that it skips files with keys of a range. Return `learned`, with the note
    that this was checked.

    The tables are asked at the first barrier, before a rebuild and after a gap, once in a run: no column changes its order without one.
-#}
{% macro check_key_order(backfill, learned) %}
    {%- set texts = learned.key | selectattr('type', 'equalto', 'string') | map(attribute='upstream') | list -%}
    {%- if learned.key_order_checked or not texts -%} {{ return(learned) }} {%- endif -%}
    {%- for followed in [backfill.upstream, backfill.feed] if followed and dbt_backfill.upstream_traits(followed).may_order_texts_otherwise -%}
        {%- do dbt_backfill.ask(followed, 'check_key_order')(followed, texts) -%}
    {%- endfor -%}
    {{ return(dict(learned, key_order_checked=true)) }}
{% endmacro %}
