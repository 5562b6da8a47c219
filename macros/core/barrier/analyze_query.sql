{#-
    Return an analysis without facts. An analysis has the facts about the query that the run has read from Spark, for all barriers of the run: {
      'explained': true once Spark has explained the query; until then the run only has the facts that the last plan recorded,
      'key': a list of {'name', 'upstream', 'type'},
      'columns': the columns of the query, as text,
      'used_settings': the settings that affect the query's values (see find_used_settings), the MV's table, or the query's input (see
        analyze_time_zone),
      'moments': the names of the upstream's columns of the type `timestamp` that the query reads; none after analyze_time_zone,
      'drops_rows': false if the query certainly returns a row for each row of the upstream,
      'read_columns': the upstream's columns that the query reads, see find_read_columns; none if the query may read all columns,
      'lacks_columns': true if the upstream at 'version' may lack a column that the query reads,
      'version': the version of the upstream for which the query was explained, or the newest version right after that; none if not known yet,
      'upstream_columns': the names of the upstream's columns at 'version'; none if they are not known, or not needed,
      'types': JSON, names -> types of the upstream's columns that the query reads; none if the kind itself reports a changed type as a gap,
      'feed_columns': see get_feed_columns; none until they are known, and also none if the upstream's own feed is read,
      'key_order_checked': see check_key_order,
      'copy_id': the id of the existing copy of the upstream, see before_choice; none until the run has looked for a copy
    }

    A macro that finds out more returns a new dict of this form.
-#}
{% macro new_analysis() %}
    {{ return({
        'explained': false, 'key': none, 'columns': none, 'used_settings': [], 'moments': none, 'drops_rows': true, 'read_columns': none,
        'lacks_columns': false, 'version': none, 'upstream_columns': none, 'types': none, 'feed_columns': none, 'key_order_checked': false,
        'copy_id': none,
    }) }}
{% endmacro %}


{#-
    Analyze the model's query. Refuse a query from which no MV can be made. Refuse a change table that lacks columns of the upstream. A run analyzes
    its query once, again (`anew`) after a gap, and again for each version of an upstream whose log does not report all changes of its columns: a
    column may have got another type, or may have become nullable, so that the query reads other columns.

    Arguments:
      version: the version of the upstream that is to be read; none if it is not known yet. The query is explained over this version, because the
        table may have more columns by now.
      `anew` (boolean): true to analyze the query again even if the run has an analysis of another version.
-#}
{% macro analyze_query(backfill, analysis, version=none, anew=false) %}
    {%- set upstream, traits = backfill.upstream.relation, dbt_backfill.upstream_traits(backfill.upstream) -%}
    {%- set is_at_version = version is not none and traits.takes_added_columns and not traits.stages_ranges -%}
    {%- set is_old = analysis.version != version and (anew or is_at_version and analysis.version is not none) -%}
    {%- if analysis.explained and not is_old -%} {{ return(dict(analysis, version=version) if is_at_version else analysis) }} {%- endif -%}
    {%- set read_from = dbt_backfill.ask(backfill.upstream, 'upstream_read')(backfill.upstream, version) if is_at_version else upstream.render() -%}
    {%- set explained = dbt_backfill.explain_query(backfill.query, upstream, backfill.options.unique_key, read_from) -%}
    {%- if traits.get('metadata_columns') -%}
        {%- do dbt_backfill.check_hidden_columns(upstream, explained.upstream_columns, traits.metadata_columns) -%}
    {%- endif -%}
    {%- set lasting = dbt_backfill.explain_lasting_query(backfill, read_from, explained) if backfill.options.volatile_columns
        else dict(explained, query=backfill.sql) -%}
    {%- do dbt_backfill.check_query(explained, backfill.sql, upstream, traits.takes_added_columns, lasting, backfill.get('views') or []) -%}
    {%- if traits.stages_ranges -%} {%- do dbt_backfill.ask(backfill.upstream, 'check_query')(explained) -%} {%- endif -%}
    {%- set used, zone = dbt_backfill.find_used_settings(lasting, lasting.query), 'spark.sql.session.timeZone' -%}
    {%- set partitions = dbt_backfill.get_partition_columns(backfill, dbt_backfill.parse_columns(explained.columns)) -%}
    {%- set used = used + ([zone] if zone not in used and 'timestamp' in partitions | map(attribute='type') else []) -%}
    {%- set read = dbt_backfill.find_read_columns(explained) -%}
    {%- set columns_read, types = explained.upstream_columns if read.columns is none else read.columns, {} -%}
    {%- for column in columns_read -%} {%- do types.update({column.name: column.type}) -%} {%- endfor -%}
    {%- set analysis = dict(
        analysis, explained=true, key=dbt_backfill.key_lineage(explained, explained.unique_key, backfill.options.upstream_key),
        columns=explained.columns, used_settings=used,
        moments=columns_read | selectattr('type', 'equalto', 'timestamp') | map(attribute='name') | list,
        drops_rows='- Filter ' in explained.analyzed | join('\n'), read_columns=read.columns, lacks_columns=read.lacks,
        version=version, upstream_columns=explained.upstream_columns | map(attribute='name') | list if is_at_version else none,
        types=tojson(types) if traits.takes_added_columns and not traits.stages_ranges else none,
        feed_columns=dbt_backfill.get_feed_columns(backfill.feed) if backfill.feed and (anew or not analysis.feed_columns) else analysis.feed_columns,
    ) -%}
    {#- The contract describes the model's current query. During a full refresh beside the MV in use, that MV still has the query that created it. -#}
    {%- if dbt_backfill.get_config().get('contract').enforced and backfill.generation != 'former' -%}
        {%- do get_assert_columns_equivalent(backfill.sql) -%}
    {%- endif -%}
    {{ return(analysis) }}
{% endmacro %}


{#- Return the columns by which a Delta table is partitioned. A type has no part in brackets: `decimal`, not `decimal(10,2)`. -#}
{% macro get_partition_columns(backfill, columns) %}
    {%- set partitions, found = backfill.get('partitions'), [] -%}
    {%- if backfill.options.file_format != 'delta' -%} {{ return(found) }} {%- endif -%}
    {%- if partitions is none -%} {%- set partitions = dbt_backfill.get_configured_partitions() -%} {%- endif -%}
    {%- for column in columns if column.name | lower in partitions -%}
        {%- do found.append({'name': column.name, 'type': column.type.split('(')[0].split(' ')[0]}) -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#-
    Return the primary key as a list of {'name': the column of the MV, 'upstream': the column of the upstream, 'type': the type of both columns}, in
    the order of unique_key.

    The upstream's column is taken from the topmost projection of the optimized plan. This projection has an unchanged column as `column#1 AS
    __bf_key_1#2`. The name is spelled as in the upstream, because the query may write the name with other upper-case and lower-case letters.

    Refuse a column of unique_key if it is an expression, if it is another column than upstream_key says, or if its type cannot be a position.
-#}
{% macro key_lineage(explained, unique_key, upstream_key) %}
    {%- set plan, attributes, keys = explained.optimized | join('\n'), dbt_backfill.get_attributes(explained.optimized[-1]), [] -%}
    {#- A column of the key has a type that Spark can compare and render as text. Other types are refused: float and double (the statistics of files
        treat NaN differently than Spark), strings with a collation (equal keys have different hashes), and every type without an order. -#}
    {%- set ordered = ['tinyint', 'smallint', 'int', 'bigint', 'string', 'date', 'timestamp', 'timestamp_ntz', 'boolean', 'binary'] -%}
    {%- for column in unique_key -%}
        {%- set before = plan.split(' AS __bf_key_' ~ loop.index ~ '#')[0] -%}
        {%- set expression = before.split('Project [')[-1] if loop.first
            else before.split(' AS __bf_key_' ~ loop.index0 ~ '#')[-1].partition(', ')[2] -%}
        {%- set name, sign, id = expression.rpartition('#') -%}
        {#- Spark keeps several projections if it would have to compute an expression twice. Then the alias is in a projection below. -#}
        {%- set names = [(name, id.rstrip('L'))] -%}
        {%- for _ in range(8) -%} {%- if names[-1][1] not in attributes -%}
            {%- set alias = ' AS ' ~ modules.re.escape(names[-1] | join('#')) ~ 'L?(?=[,\\]])' -%}
            {%- do names.extend(modules.re.findall('(?:\\[|, )([^#]*)#(\\d+)L?' ~ alias, plan)[:1]) -%}
        {%- endif -%} {%- endfor -%}
        {%- set name, id = names[-1] -%}
        {%- set type, upstream = explained.key_types[loop.index0], attributes.get(id, '') -%}
        {%- if not upstream or upstream | lower != name | lower -%}
            {#- Spark pads the value of a char(n) column when it reads the column. So the value is an expression, and Spark does not push filters on
                expressions down to files. -#}
            {%- if 'readSidePadding(' in expression or 'readSidePadding(' in plan and ') AS ' ~ expression in plan -%}
                {%- do dbt_backfill.refuse("the column '" ~ column ~ "' of unique_key has the type char(n), which a key cannot have",
                    'Give the upstream a key of the type string or varchar(n)', id='key-type-char') -%}
            {%- endif -%}
            {%- do dbt_backfill.refuse("the column '" ~ column ~ "' of unique_key is an expression, not a column of the upstream",
                'Select the primary key of the upstream unchanged (another name is fine), and name it in unique_key. A surrogate key can be a column '
                    ~ 'beside it, with its own unique test', id='key-is-an-expression') -%}
        {%- elif upstream_key and upstream_key[loop.index0] | lower != upstream | lower -%}
            {%- do dbt_backfill.refuse(
                "upstream_key says that '" ~ column ~ "' comes from '" ~ upstream_key[loop.index0] ~ "', but in the query '" ~ column
                    ~ "' comes from '" ~ upstream ~ "'", 'Correct or remove upstream_key', id='upstream-key-contradicts-query') -%}
        {%- elif upstream in keys | map(attribute='upstream') -%}
            {%- do dbt_backfill.refuse(
                "two columns of unique_key come from the column '" ~ upstream ~ "' of the upstream", 'Name each column of the primary key once',
                id='key-columns-same-source') -%}
        {%- elif type not in ordered and not type.startswith('decimal(') -%}
            {%- do dbt_backfill.refuse("the column '" ~ column ~ "' of unique_key has the type " ~ type ~ ', which a key cannot have',
                'Use a key of integers, strings (without a collation), dates, timestamps, decimals, booleans or binary',
                id='key-type-unsupported') -%}
        {%- endif -%}
        {%- do keys.append({'name': column, 'upstream': upstream, 'type': type}) -%}
    {%- endfor -%}
    {{ return(keys) }}
{% endmacro %}


{#-
    Return the columns of the upstream that a query reads: {
      'columns': a list of {'name', 'type'}; none if the query reads all columns, or if the columns cannot be determined,
      'lacks': true if the upstream, at the explained version, may lack a column that the query reads
    }
-#}
{% macro find_read_columns(explained) %}
    {%- set attributes, names, read = dbt_backfill.get_attributes(explained.optimized[-1]), {}, [] -%}
    {%- for id in modules.re.findall('#(\\d+)', explained.optimized[:-1] | join('\n')) -%}
        {%- if id in attributes -%} {%- do names.update({attributes[id]: true}) -%} {%- endif -%}
    {%- endfor -%}
    {%- for column in explained.upstream_columns if column.name in names -%} {%- do read.append(column) -%} {%- endfor -%}
    {%- set lacks = not read or read | length != names | length -%}
    {{ return({'columns': none if lacks or read | length == explained.upstream_columns | length else read, 'lacks': lacks}) }}
{% endmacro %}


{#-
    Return the analysis. Add the session's time zone to its used settings if the rows that the query reads depend on the time zone. The rows depend on
    it if the query reads columns of the type `timestamp`, and the upstream or its change table is partitioned by such a column. The tables are
    checked before the first barrier, after a gap, and after a change of the query. Otherwise the last plan has the answer: the partitions of a table
    change only if it is replaced.
-#}
{% macro analyze_time_zone(backfill, state, observed, analysis, anew) %}
    {%- set zone, names = 'spark.sql.session.timeZone', analysis.moments -%}
    {%- if not names -%} {{ return(analysis) }} {%- endif -%}
    {%- set depends = [zone] if zone in (state.committed.get('settings') or {}) else [] -%}
    {%- if anew or state.get('upstream_version') is none or state.committed.query_hash != backfill.query_hash -%}
        {%- for table, seen in [(backfill.upstream, observed), (backfill.feed, observed.get('feed'))]
                if table and dbt_backfill.upstream_traits(table).may_read_by_zone -%}
            {%- if dbt_backfill.ask(table, 'reads_by_zone')(seen, names) -%} {%- do depends.append(zone) -%} {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {%- set added = [zone] if depends and zone not in analysis.used_settings else [] -%}
    {{ return(dict(analysis, moments=none, used_settings=analysis.used_settings + added)) }}
{% endmacro %}


{#-
    Refuse a key if the upstream or its change table orders the values of the key differently than Spark. Otherwise a read of a range would skip files
    that have keys of the range. Return the analysis, which records that the order was checked.

    The tables are checked at the first barrier, before a rebuild and after a gap, at most once in a run. The order of a column cannot change
    without a gap.
-#}
{% macro check_key_order(backfill, analysis) %}
    {%- set texts = analysis.key | selectattr('type', 'equalto', 'string') | map(attribute='upstream') | list -%}
    {%- if analysis.key_order_checked or not texts -%} {{ return(analysis) }} {%- endif -%}
    {%- for followed in [backfill.upstream, backfill.feed] if followed and dbt_backfill.upstream_traits(followed).may_order_texts_otherwise -%}
        {%- do dbt_backfill.ask(followed, 'check_key_order')(followed, texts) -%}
    {%- endfor -%}
    {{ return(dict(analysis, key_order_checked=true)) }}
{% endmacro %}


{#- Refuse a version of the upstream on which the query does not run. For example, an Iceberg snapshot has the columns that the table had when the
    snapshot was written, and an ALTER makes no new snapshot. -#}
{% macro check_query_at(backfill, observed, analysis, version) %}
    {%- if not observed.get('altered') -%} {{ return(none) }} {%- endif -%}
    {%- set scan = 'select * from ' ~ dbt_backfill.ask(backfill.upstream, 'upstream_read')(backfill.upstream, version) -%}
    {%- set found = dbt_backfill.explain_comparably(backfill, backfill.query, scan=scan) -%}
    {#- If the version lacks a column and the query has an alias with the same name, the query would run but read the alias. -#}
    {%- set lacks = analysis.lacks_columns and analysis.version == version -%}
    {%- if found is not none and found.columns == analysis.columns and not lacks -%} {{ return(none) }} {%- endif -%}
    {%- set upstream = backfill.upstream.relation.render() -%}
    {%- if observed.get('version', version) != version -%}
        {%- do dbt_backfill.refuse(
            "backfill_mode 'snapshot' reads version " ~ version ~ ' of ' ~ upstream ~ ', but the query reads columns that this version does not have',
            "Run the previous query until the backfill has finished, or set another backfill_mode than 'snapshot'", id='snapshot-lacks-columns') -%}
    {%- endif -%}
    {%- do dbt_backfill.refuse(
        'the columns of ' ~ upstream ~ ' were changed, but its snapshot ' ~ version ~ ' does not have all columns that the query reads',
        'Write to ' ~ upstream ~ ': this creates a snapshot with the current columns; an INSERT of no rows is enough', id='upstream-columns-altered'
    ) -%}
{% endmacro %}


{#-
    Return how the model differs from the last plan: {
      'rebuild': why the MV is to be rebuilt; none if no rebuild is needed,
      'columns': how the columns of the query differ, if `on_schema_change` lets the MV get these columns, see find_other_columns; else none
    }

    Refuse any other change: otherwise the MV would have rows of two different queries. If the query was not explained, only its text and the options
    are compared. (dbt's `on_configuration_change` is not used: its default is `apply`, so the MV would be rebuilt silently.)
-#}
{% macro find_change(backfill, state, analysis) %}
    {%- if state.get('missing') -%} {{ return({'rebuild': none, 'columns': none}) }} {%- endif -%}
    {%- set options, planned = backfill.options, state.get('planned') -%}
    {%- set is_replaced = planned and dbt_backfill.replaces_mv(planned) -%}
    {%- set last = planned if is_replaced else state.committed -%}
    {%- set reason = dbt_backfill.find_difference(backfill, state.settings, analysis, last) -%}
    {%- if not reason and backfill.get('views') -%}
        {%- do dbt_backfill.check_settings_of_views(backfill.views, state.settings, last.get('settings') or {}) -%}
    {%- endif -%}
    {%- set alters = options.on_schema_change in ['append_new_columns', 'sync_all_columns'] and not is_replaced -%}
    {%- set found = dbt_backfill.find_other_columns(backfill, state, analysis) if reason and alters else {'columns': none, 'why': none} -%}
    {%- if found.columns or not reason -%} {{ return({'rebuild': none, 'columns': found.columns}) }} {%- endif -%}
    {%- set refuses_all = options.on_query_change == 'fail' -%}
    {%- if refuses_all or options.on_schema_change == 'fail' -%}
        {#- Refuse an invalid query first. Otherwise a user might rebuild the MV for a query that is then refused. -#}
        {%- if not analysis.explained -%}
            {%- do dbt_backfill.observe_upstream(backfill, state, none) -%}
            {%- set analysis = dbt_backfill.analyze_query(backfill, analysis) -%}
        {%- endif -%}
        {%- if refuses_all -%}
            {%- set which = 'its' if options.on_schema_change == 'sync_all_columns' else 'new' -%}
            {%- set more = ', and more than ' ~ which ~ ' columns changed: ' ~ found.why if found.why else '' -%}
            {%- do dbt_backfill.refuse(reason ~ ' since its last barrier' ~ more,
                "Undo the change, or rebuild the MV: once with --full-refresh, or always with on_query_change='rebuild'", id='model-changed') -%}
        {%- elif analysis.columns != last.query_columns -%}
            {%- do dbt_backfill.refuse(
                'the columns of its query changed from (' ~ last.query_columns ~ ') to (' ~ analysis.columns ~ ') since its last barrier',
                "Undo the change, rebuild the MV once with --full-refresh, or remove on_schema_change='fail'", id='query-columns-changed') -%}
        {%- endif -%}
    {%- endif -%}
    {{ return({'rebuild': reason, 'columns': none}) }}
{% endmacro %}


{#- True if a query differs from an earlier query only by the `invocation_id`, which dbt renders as another literal in each run. -#}
{% macro differs_by_run(query, earlier, volatile) %}
    {%- set query, earlier = dbt_backfill.get_lasting_query(query, volatile), dbt_backfill.get_lasting_query(earlier, volatile) -%}
    {%- set id = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}' -%}
    {{ return(invocation_id in query and query != earlier and modules.re.sub(id, '', query) == modules.re.sub(id, '', earlier)) }}
{% endmacro %}


{#- Return how the model differs from the model of the plan `last`; none if both models have the same meaning. The number of vnodes and the order of
    the backfill are not compared, because they do not change the rows. The MV keeps both, see report_kept_shape. -#}
{% macro find_difference(backfill, settings, analysis, last) %}
    {%- set changed, options = dbt_backfill.find_changed_setting(last, settings), backfill.options -%}
    {%- set upstream, names = dbt_backfill.get_source(last).relation, last.key | map(attribute='name') | list -%}
    {%- set volatile = options.volatile_columns or [] -%}
    {%- set stopped = (last.get('volatile_columns') or []) | map('lower') | reject('in', volatile | map('lower') | list) | list -%}
    {%- if upstream | replace('`', '') != backfill.upstream.relation.render() | replace('`', '') -%}
        {{ return('its upstream changed from ' ~ upstream ~ ' to ' ~ backfill.upstream.relation.render()) }}
    {%- elif last.query_hash != backfill.query_hash and dbt_backfill.get_words(dbt_backfill.get_lasting_query(last.query, volatile))
            != dbt_backfill.get_words(dbt_backfill.get_lasting_query(backfill.query, volatile)) -%}
        {#- The words are compared because an earlier version of this package computed the stored hash in another way, and because the hash depends on
            the names in volatile_columns, to which a name may have been added. The order of the words counts.
            Upper and lower case counts as well, because a name may become a value (`to_json(struct(Id))`). -#}
        {{ return('its query contains the invocation_id of dbt as a literal outside of volatile_columns, which changed'
            if dbt_backfill.differs_by_run(backfill.query, last.query, volatile) else 'its query changed') }}
    {%- elif stopped -%}
        {#- The column may have outdated values in the MV, because it was left out of the comparisons. -#}
        {{ return('volatile_columns no longer contains ' ~ stopped | join(', ')) }}
    {%- elif names | map('lower') | list != options.unique_key | map('lower') | list -%}
        {{ return('unique_key changed from ' ~ names | join(', ') ~ ' to ' ~ options.unique_key | join(', ')) }}
    {%- elif changed -%}
        {{ return(changed.words ~ ' changed from ' ~ changed.was ~ ' to ' ~ changed.is) }}
    {%- elif not analysis.explained -%}
        {{ return(none) }}
    {%- endif -%}
    {%- for column in analysis.key -%}
        {%- if column.type != last.key[loop.index0].type -%}
            {{ return('the type of ' ~ column.upstream ~ ' changed from ' ~ last.key[loop.index0].type ~ ' to ' ~ column.type) }}
        {%- endif -%}
    {%- endfor -%}
    {%- if analysis.key | map(attribute='name') | list != names -%}
        {{ return('unique_key changed from ' ~ names | join(', ') ~ ' to ' ~ analysis.key | map(attribute='name') | join(', ')) }}
    {%- elif analysis.key | map(attribute='upstream') | list != last.key | map(attribute='upstream') | list -%}
        {{ return('the columns of the upstream that unique_key carries changed') }}
    {%- elif analysis.columns != last.query_columns -%}
        {{ return('the columns of its query changed from (' ~ last.query_columns ~ ') to (' ~ analysis.columns ~ ')') }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#- Return the first setting of the session (see get_result_settings) that has changed since a plan was made: {'setting', 'words': the name for a
    message, 'was', 'is'}; none if no setting has changed. A setting that is not set counts as its default. The value EXCEPTION counts as the default
    as well: with EXCEPTION, Spark returns the same value or fails. -#}
{% macro find_changed_setting(plan, settings) %}
    {%- set recorded = plan.get('settings') -%}
    {%- if recorded is none -%} {{ return(none) }} {%- endif -%}
    {%- set now, corrupt = dbt_backfill.get_result_settings(settings, recorded), 'spark.sql.columnNameOfCorruptRecord' -%}
    {#- An earlier version of this package always recorded the same 29 settings, even those that were not set. It recorded three of the 29 settings in
        another form. -#}
    {%- set is_of_earlier_version = 'spark.sql.legacy.typeCoercion.datetimeToString.enabled' in recorded
        and 'spark.sql.parser.escapedStringLiterals' in recorded -%}
    {%- set in_another_form = [corrupt, 'spark.sql.legacy.sizeOfNull', 'spark.sql.legacy.csv.enableDateTimeParsingFallback'] -%}
    {%- set compared = recorded.keys() | reject('in', in_another_form) | list if is_of_earlier_version else dict(recorded, **now) -%}
    {%- for name in compared -%}
        {%- set default, values = dbt_backfill.default_of_result_setting(name), [] -%}
        {%- for text in [recorded.get(name), now.get(name)] -%}
            {%- do values.append(default if default is not none and (text is none or text | upper == 'EXCEPTION') else text or '') -%}
        {%- endfor -%}
        {%- if values[0] != values[1] and (name == corrupt or values[0] | lower != values[1] | lower) -%}
            {%- set words = "the session's time zone" if name == 'spark.sql.session.timeZone' else name -%}
            {%- set depends = 'may depend' if default is not none else 'depends' -%}
            {{ return({'setting': name, 'words': words ~ ', on which its query ' ~ depends ~ ',', 'was': values[0], 'is': values[1]}) }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    Refuse a view that Spark created with other settings than those of this session, if the settings may change the values of the query. Spark
    evaluates a view with the settings that it has stored with the view, but a barrier evaluates the text of the view with the session's settings.
    `views`: see read_through_views; `settings`: see get_result_settings; `used`: see find_used_settings.
-#}
{% macro check_settings_of_views(views, settings, used) %}
    {%- for view in views -%}
        {%- set stored = {} -%}
        {#- Spark evaluates a view without a stored setting with the default. For the settings in `used` this is false or, for the time zone, unknown. -#}
        {%- for name in used -%} {%- do stored.update({name: 'false'}) -%} {%- endfor -%}
        {%- for name, value in view.settings.items() if name in used or dbt_backfill.default_of_result_setting(name) is not none -%}
            {%- do stored.update({name: value}) -%}
        {%- endfor -%}
        {#- Spark stores no settings of the first three kinds with a view. Delta sets the last one in each session that reads a Delta table. Delta and
            Iceberg read no files by it. -#}
        {%- set of_session = ('spark.sql.analyzer.', 'spark.sql.execution.', 'spark.sql.optimizer.', 'spark.sql.parquet.fieldId.read.enabled') -%}
        {%- for name, value in settings.items() if name.startswith(of_session) -%} {%- do stored.update({name: value}) -%} {%- endfor -%}
        {%- set changed = dbt_backfill.find_changed_setting({'settings': stored}, settings) -%}
        {%- if changed -%}
            {%- do dbt_backfill.refuse(
                'its query reads the view ' ~ view.name ~ ', which Spark evaluates with the stored value of ' ~ changed.setting ~ ', '
                    ~ view.settings.get(changed.setting, 'not set') ~ ', but in this session it is ' ~ changed.is,
                'Create the view again, as dbt run --select does for a model, or read the table under the view', id='view-setting-differs') -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#-
    Return how Spark reads a query over the upstream, in a form that can be compared: {'columns': their names and types, 'plan': the optimized
    plan, in which the ids of expressions are numbered in the order of appearance}; none if the query does not run. `columns`: the columns of the
    query that are compared; none for all. `scan`: a select that the query reads instead of the upstream's current version, or none.
-#}
{% macro explain_comparably(backfill, query, columns=none, scan=none) %}
    {%- set upstream, selected = backfill.upstream.relation, dbt_backfill.identifiers(columns) if columns else '*' -%}
    {%- set read = dbt_backfill.get_query_sql(query, upstream, scan) -%}
    {%- set plan = dbt_backfill.run_explain('compare the query', 'select ' ~ selected ~ ' from (\n' ~ read ~ '\n)') -%}
    {%- if dbt_backfill.find_plan_error(plan) -%} {{ return(none) }} {%- endif -%}
    {%- set parts, ids = [], {} -%}
    {#- re.split returns the ids as every second part. -#}
    {%- for part in modules.re.split('#(\\d+)', dbt_backfill.plan_section(plan, 'Optimized') | join('\n')) -%}
        {%- do parts.append('#' ~ ids.setdefault(part, ids | length) if loop.index0 % 2 else part) -%}
    {%- endfor -%}
    {{ return({'columns': dbt_backfill.plan_section(plan, 'Analyzed')[0], 'plan': parts | join}) }}
{% endmacro %}
