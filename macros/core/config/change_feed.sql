{#-
    Return the option `change_feed`: a change table that is read instead of the upstream's own feed. A table of PostgreSQL has no feed of its
    own, so it needs a change table. Refuse an invalid value. Return {
      'node': the node of the graph that `relation` names,
      'format': `declared` if the user names the columns. For PostgreSQL the format may also be `landed` (land_changes writes the table) or
        `debezium`,
    only for the format `declared`:
      'operation': the column that has the operation of an event,
      'sequence': the columns of the change table that order the events of a key, ascending,
      'deletes', 'before_images': the operations that delete, and those of events that contain the previous row, in lower case without blanks
        around them: a column of the type char(n) pads its values,
      'ordered_texts': true if the user says that texts in 'sequence' have the order of the events,
      'position': the column of positions; none if the upstream is not a PostgreSQL table,
      'xid': the column of transactions; none if there is no such column,
    only for PostgreSQL:
      'table': the table's name in PostgreSQL, with its schema; none if the upstream has the same name,
      'slot': the replication slot from which this package lands the changes; none if something else lands them,
      'wait_seconds': how long a barrier waits for changes that have not landed yet,
      'finite': true if the user says that the table has neither NaN nor infinity
    }

    As in dbt's own snapshots, `relation` is a string such as "ref('orders_changes')" or "source('raw', 'orders_changes')": dbt would evaluate a ref()
    in a config block before it knows the models. To make dbt build orders_changes first, the query needs the comment `-- depends_on: {{ '{{' }}
    ref('orders_changes') }}`.
-#}
{% macro read_change_feed(feed) %}
    {%- set expected = "{'relation': \"ref('orders_changes')\", 'operation': a column, 'sequence': a column or a list of them, "
        ~ "'deletes': the operations that delete}, or of PostgreSQL {'relation': \"source('lake', 'orders_changes')\", 'slot': a name}" -%}
    {%- if feed is not mapping -%} {%- do dbt_backfill.refuse_option('change_feed', feed, expected) -%} {%- endif -%}
    {%- set format = dbt_backfill.get_feed_format(feed) -%}
    {%- if format not in ['landed', 'debezium', 'declared'] -%}
        {%- do dbt_backfill.refuse_option('the format of change_feed', format, 'landed, debezium or declared') -%}
    {%- endif -%}
    {%- set own = ['operation', 'sequence', 'ordered_texts', 'deletes', 'position', 'xid'] -%}
    {%- set known = ['relation', 'format', 'table', 'slot', 'wait_seconds', 'finite'] + own -%}
    {%- set missing = format == 'declared' and (feed.operation is not string or not feed.sequence) -%}
    {%- if not feed.relation or feed.keys() | reject('in', known) | list or missing -%}
        {%- do dbt_backfill.refuse_option('change_feed', feed, expected) -%}
    {%- endif -%}
    {%- for key in own if key in feed and format != 'declared' -%}
        {%- do dbt_backfill.refuse("its change_feed sets '" ~ key ~ "', which is not a key of the format " ~ format,
            "Remove '" ~ key ~ "', or set 'format': 'declared' for a change table with columns of your own", id='change-feed-key-unknown') -%}
    {%- endfor -%}
    {%- for key in ['xid', 'table', 'slot', 'wait_seconds', 'finite'] if key in feed and format == 'declared' and not feed.get('position') -%}
        {%- do dbt_backfill.refuse("its change_feed sets '" ~ key ~ "' but not 'position', and '" ~ key ~ "' is only for changes of PostgreSQL",
            "Remove '" ~ key ~ "', or set 'position' to the column that has the position of the commit, as a number",
            id='change-feed-postgresql-key') -%}
    {%- endfor -%}
    {%- for key in ['position', 'xid', 'table', 'slot'] if feed.get(key) is not none and feed[key] is not string -%}
        {%- do dbt_backfill.refuse_option('the ' ~ key ~ ' of change_feed', feed[key], 'a name') -%}
    {%- endfor -%}
    {%- for key in ['finite', 'ordered_texts'] if feed.get(key, false) is not boolean -%}
        {%- do dbt_backfill.refuse_option(key ~ ' of change_feed', feed[key], 'true or false') -%}
    {%- endfor -%}
    {%- set seconds, declared, nodes = feed.get('wait_seconds', 60), format == 'declared', [] -%}
    {%- if seconds is not integer or seconds is boolean or seconds < 0 -%}
        {%- do dbt_backfill.refuse_option('the wait_seconds of change_feed', seconds, 'a whole number of 0 or more') -%}
    {%- endif -%}
    {%- for id in model.depends_on.nodes -%}
        {%- set node = graph.nodes.get(id) or graph.sources.get(id) -%}
        {%- if node and dbt_backfill.is_named_by(node, feed.relation) -%} {%- do nodes.append(node) -%} {%- endif -%}
    {%- endfor -%}
    {%- if not nodes -%}
        {%- set example = feed.relation if modules.re.search('[\'"][^\'"]*[\'"]', feed.relation | string) else "ref('orders_changes')" -%}
        {%- do dbt_backfill.refuse(
            'its query does not depend on ' ~ feed.relation ~ ', the relation of its change_feed',
            "Write the relation as text, such as \"ref('orders_changes')\", and add to the query the comment -- depends_on: "
                ~ '{{ ' ~ example ~ ' }}', id='change-feed-no-dependency') -%}
    {%- endif -%}
    {{ return({
        'node': nodes[0], 'format': format,
        'operation': feed.operation if declared else none, 'sequence': dbt_backfill.as_list(feed.sequence) if declared else none,
        'deletes': dbt_backfill.as_list(feed.get('deletes', ['d', 'delete'])) | map('string') | map('lower') | map('trim') | list
            if declared else none,
        'before_images': ['update_preimage', 'update_before', 'before', 'ub', '-u'] if declared else none,
        'ordered_texts': feed.get('ordered_texts', false),
        'position': feed.get('position'), 'xid': feed.get('xid'), 'table': feed.get('table'), 'slot': feed.get('slot'),
        'wait_seconds': seconds, 'finite': feed.get('finite', false),
    }) }}
{% endmacro %}


{#- Return the `format` of a change_feed as the user wrote it, or the format that its other keys imply. -#}
{% macro get_feed_format(feed) %}
    {{ return(feed.get('format', 'declared' if 'operation' in feed or 'sequence' in feed else 'landed')) }}
{% endmacro %}


{% macro as_list(value) %}
    {{ return([value] if value is string or value is not iterable else value | list) }}
{% endmacro %}


{#- True if a text such as `ref('orders_changes')` or `source('raw', 'orders')` names a node. -#}
{% macro is_named_by(node, text) %}
    {%- set names = modules.re.findall('[\'"]([^\'"]*)[\'"]', text | string) -%}
    {%- set is_source = (text | string).strip().startswith('source') -%}
    {{ return(names and node.name == names[-1] and is_source == (node.resource_type == 'source')
        and (not is_source or node.source_name == names[0])) }}
{% endmacro %}
