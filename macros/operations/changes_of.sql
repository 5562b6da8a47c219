{#-
    For a model downstream: return what changed in an MV since the model's own last run, as {
      'rows': the changes, as text for FROM: the columns of the MV, and _change_type: 'delete' with a row as it was, 'insert' with a row as it is now.
        An update is a delete and an insert. In the first run of the model, and in a full refresh, these are the rows of the MV as inserts,
      'table': the MV at the version of the newest change, as text for FROM,
      'mark': an expression for the column mv_version of the model. The next run reads the changes after the greatest mark that the model has stored
    }

    A model that reads the MV itself instead of `table` may be wrong: a row that is written twice between two runs is in the changes once, so a state
    that only this model has seen would never be corrected.

    Refuse an MV that is not in the graph or does not exist, an MV without a change feed, and a model whose last mark is lost or is out of the reach of
    the feed. Only a command that runs the model reads the MV.

    Arguments:
      mv (relation): the MV, by ref().
      since (relation): the table with the column mv_version; by default the model itself.
-#}
{% macro changes_of(mv, since=none) %}
    {%- set whole, since = mv.incorporate(limit=none, event_time_filter=none), since or this -%}
    {%- set runs = execute and flags.WHICH in ['run', 'build', 'retry', 'show'] -%}
    {#-
        With --empty and --sample, ref() has only some rows. Such a run stores no mark, and changes no group of a table that exists. In a unit test of
        dbt, ref() is a CTE with the given rows.
    -#}
    {%- if not runs or mv.is_cte or whole.render() != mv.render() -%}
        {%- set keeps = runs and is_incremental() and not mv.is_cte -%}
        {%- set rows = "(select *, 'insert' as _change_type from " ~ mv.render() ~ (' where false)' if keeps else ')') -%}
        {{ return({'rows': rows, 'table': mv.render(), 'mark': 'cast(null as string)'}) }}
    {%- endif -%}
    {%- set nodes, existing = [], dbt_backfill.load_table(whole, reads=true) -%}
    {%- for node in dbt_backfill.find_backfilled_mvs() -%}
        {#- With --defer, ref() may return the table of another environment. -#}
        {%- for place in [node, node.get('defer_relation')] if place and dbt_backfill.get_node_relation(place).render() == whole.render() -%}
            {%- do nodes.append(node) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set kind = dbt_backfill.get_table_format(existing, whole) if existing and not existing.is_view else none -%}
    {%- do dbt_backfill.refuse_first([
        {'when': not nodes, 'id': 'changes-of-not-mv', 'fact': 'changes_of reads ' ~ whole.render() ~ ', which is no backfilled_mv of the project',
         'change': 'Give changes_of a backfilled_mv, as ref() returns it'},
        {'id': 'changes-of-missing-mv', 'when': not existing, 'fact': 'changes_of reads ' ~ whole.render() ~ ', which does not exist',
         'change': 'Run that model first'},
        {'when': kind not in ['delta', 'iceberg'], 'fact': 'changes_of reads ' ~ whole.render() ~ ', which is neither a Delta nor an Iceberg table',
         'id': 'changes-of-other-table', 'change': 'Run that model first'},
    ]) -%}
    {%- set upstream, mark = {'relation': whole, 'kind': kind}, none -%}
    {%- if is_incremental() -%}
        {#- Without rows there is no last mark. Rows without a mark are refused, because their groups may be outdated. -#}
        {%- set found = dbt_backfill.run_table('read the last mark', 'select max(mv_version), count(*) from ' ~ since.render())[0]
            if 'mv_version' in dbt_backfill.get_column_types(since) else [none, 1] -%}
        {%- if found[0] is none and found[1] | int > 0 -%}
            {%- do dbt_backfill.refuse(since.render() ~ ' has rows, but no mark of changes_of in a column mv_version',
                'Select the mark as mv_version, and run this model once with --full-refresh', id='changes-of-without-mark') -%}
        {%- endif -%}
        {%- set mark = found[0] -%}
    {%- endif -%}
    {%- set committed = fromjson(mark.partition(' ')[2]) if mark else none -%}
    {%- if committed and committed.relation != whole.render() -%}
        {%- do dbt_backfill.refuse('changes_of reads ' ~ whole.render() ~ ', but the last mark in mv_version is of ' ~ committed.relation,
            'Read the changes of one MV in a model. If the model has another MV now, run it once with --full-refresh', id='changes-of-other-mv') -%}
    {%- endif -%}
    {%- set observed = dbt_backfill.ask(upstream, 'read_upstream')(upstream, committed) -%}
    {#- The first run checks that the table is an MV. Later, a gap shows that it is another table than before. -#}
    {%- if not committed and 'dbt_backfill.id' not in observed.properties -%}
        {%- do dbt_backfill.refuse('changes_of reads ' ~ whole.render() ~ ', which was not created by this package',
            'Run that model first', id='changes-of-unknown-table') -%}
    {%- endif -%}
    {%- do dbt_backfill.ask(upstream, 'check_feed')(observed) -%}
    {%- set columns = dbt_backfill.get_table_columns(whole) -%}
    {%- set types = local_md5(tojson(dbt_backfill.types_by_name(columns))) -%}
    {%- set gap = dbt_backfill.ask(upstream, 'upstream_gap')(observed, committed) if committed else none -%}
    {#- Delta refuses to read rows of two types from its feed. On Iceberg, upstream_gap finds the other columns. -#}
    {%- if not gap and committed and committed.get('types', types) != types -%} {%- set gap = {'reason': 'its columns have changed'} -%} {%- endif -%}
    {%- if gap -%}
        {%- do dbt_backfill.refuse(
            'changes_of cannot read the changes of ' ~ whole.render() ~ ' since the last run, because '
                ~ gap.reason | replace('the upstream', 'that table') | replace('the last barrier', 'the last run'),
            (gap.refusal.change ~ '. Then run' if gap.refusal else 'Run') ~ ' this model once with --full-refresh', id='changes-of-not-readable') -%}
    {%- endif -%}
    {%- set table = dbt_backfill.ask(upstream, 'upstream_read')(upstream, observed.version) -%}
    {%- set rows = dbt_backfill._read_changes(upstream, observed, committed.version, columns, nodes[0], since)
        if committed and committed.version != observed.version
        else "select *, 'insert' as _change_type from " ~ table ~ (' where false' if committed else '') -%}
    {%- set now = dict(upstream, relation=whole.render(), id=observed.id, version=observed.version, committed_at=observed.committed_at, types=types) -%}
    {#- The number of the mark is one more than the last number, so the greatest mark is the last one, whatever the clocks say. -#}
    {%- set number = mark.partition(' ')[0] | int + 1 if mark else 1 -%}
    {{ return({'rows': '(' ~ rows ~ ')', 'table': table, 'mark': dbt_backfill.string_literal('%012d ' % number ~ tojson(now))}) }}
{% endmacro %}


{#- Send the statements that the feed of an MV needs, because a model is one statement. Return a select of the changes after a version. -#}
{% macro _read_changes(upstream, observed, version, columns, node, since) %}
    {%- set wanted, keys = dbt_backfill.as_list(dbt_backfill.get_option_of(node, 'unique_key')) | map('lower') | list, [] -%}
    {%- for column in columns if column.name | lower in wanted -%}
        {%- do keys.append({'name': column.name, 'upstream': column.name, 'type': column.type}) -%}
    {%- endfor -%}
    {%- if keys | length != wanted | length -%}
        {%- do dbt_backfill.refuse('changes_of reads ' ~ upstream.relation.render() ~ ', which lacks a column of its unique_key (' ~ wanted | join(', ') ~ ')',
            'Run that model first', id='changes-of-key-columns') -%}
    {%- endif -%}
    {%- set id = local_md5([upstream.relation.render(), since.render(), invocation_id] | join(' '))[:12] -%}
    {%- set view = dbt_backfill.identifier(this.identifier ~ '__changes_of__' ~ id) -%}
    {%- set changes = dbt_backfill.ask(upstream, 'upstream_changes')(observed, version, observed.version, keys, view) -%}
    {%- set events = [changes.events] -%}
    {%- for statement in changes.setup or [] -%}
        {%- if changes.declarations -%}
            {#- The statement sets a variable of a script to a struct of texts. -#}
            {%- set texts = dbt_backfill.run_json('list the changed files', 'select to_json(' ~ statement.partition(' = ')[2] ~ ')')[0] -%}
            {%- for literal in changes.literals -%} {%- do events.append(events[-1] | replace(literal, texts[literal.split('.')[1]])) -%} {%- endfor -%}
        {%- else -%}
            {%- do dbt_backfill.run_table('list the changes', statement) -%}
        {%- endif -%}
    {%- endfor -%}
    {#- Spark reads a column, and checks its values, only if the model uses the column. -#}
    {%- set selected = [] -%}
    {%- for column in columns -%}
        {%- set name = dbt_backfill.identifier(column.name) -%}
        {%- set may_differ = changes.alters_values and ['string', 'char', 'date', 'timestamp', 'variant'] | select('in', column.type) | list -%}
        {%- set error = 'changes_of ' ~ upstream.relation.identifier ~ ': the feed does not show each value of ' ~ column.name
            ~ ' as it is: it alters text that is not UTF-8 and days from 5 to 14 October 1582. Run this model once with --full-refresh.' -%}
        {%- do selected.append('if(' ~ dbt_backfill.altered_predicate('struct(' ~ name ~ ')') ~ ', raise_error(' ~ dbt_backfill.string_literal(error) ~ '), '
            ~ name ~ ') as ' ~ name if may_differ else name) -%}
    {%- endfor -%}
    {{ return('select ' ~ selected | join(', ') ~ ", if(__bf_is_upsert, 'insert', 'delete') as _change_type from (" ~ events[-1] ~ ')') }}
{% endmacro %}
