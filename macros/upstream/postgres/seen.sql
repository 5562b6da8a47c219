{#-
    What a plan notes of the table and of its change table, by which another one shows that no event tells of: {
      'begun': of the change table, see get_landing_note; none if it has no such note,
      'file': of the table, see get_postgres_facts_query,
      'columns': of those that the query reads, by name, a list of what their values depend on: 'number', 'type_id', 'typmod' and
        'written' of get_postgres_facts_query, and of an enum how many labels it has, and their digest
    }

    Arguments:
      note (text or none): the last one of the feed.
      since (dict or none): the source of the committed plan.
-#}
{% macro get_seen_table(facts, names, note, since) %}
    {%- set before = fromjson((since or {}).get('definition') or '{}').get('seen') or {} -%}
    {%- set columns = {} -%}
    {%- for column in facts.columns if column.name in names -%}
        {%- set seen = [column.number, column.type_id, column.typmod, column.written] -%}
        {%- do columns.update({column.name: seen + ([column.labels | length, dbt_backfill._digest_labels(column.labels)] if column.labels else [])}) -%}
    {%- endfor -%}
    {#- Whoever removes old events may remove the notes. -#}
    {{ return({'begun': fromjson(note).begun if note else before.get('begun'), 'file': facts.get('file'), 'columns': columns}) }}
{% endmacro %}


{% macro _digest_labels(labels) %}
    {{ return(local_md5(tojson(labels))[:12]) }}
{% endmacro %}


{#-
    Why the table, or its change table, is not what it was, as the end of a sentence; none if it is, as far as both tell. Commands
    that only alter what the catalog says of a column leave its values; those that write it anew may not.

    Arguments:
      before, now (dict): as get_seen_table made them; {} where a plan noted none.
      facts (dict): of now.
-#}
{% macro find_unlike_table(before, now, facts) %}
    {%- if before.get('begun') and now.get('begun') and before.begun != now.begun -%} {{ return('its change table was made anew') }} {%- endif -%}
    {%- for name, was in (before.get('columns') or {}).items() if name in now.columns -%}
        {%- set seen = now.columns[name] -%}
        {%- set labels = (facts.columns | selectattr('name', 'equalto', name) | map(attribute='labels') | first) or [] -%}
        {#- An enum gets labels at its end, which is no change of those that it had. -#}
        {%- set renamed = was[4:] and dbt_backfill._digest_labels(labels[:was[4]]) != was[5] -%}
        {%- if was[:3] != seen[:3] or renamed or was[3] != seen[3] and before.file != now.file -%}
            {{ return('the column ' ~ name ~ ' of the upstream was altered, and no event tells what that did to its values') }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#-
    What a landing notes with each of its marks, as JSON: {
      'begun': an id of the change table, which one that is made anew has not,
      'keys': by which its events tell what becomes of a row, see get_postgres_told_keys,
      'doubtful': the columns of which it may have told a NaN or an infinity as null
    }

    Arguments:
      columns (list): as get_columns_to_land returned them.
-#}
{% macro get_landing_note(facts, columns, begun) %}
    {%- set landed, doubtful = columns | map(attribute='name') | list, [] -%}
    {%- for column in facts.columns if column.name in landed and dbt_backfill.has_doubtful_nulls(column) -%}
        {%- do doubtful.append(column.name) -%}
    {%- endfor -%}
    {{ return(tojson({'begun': begun, 'keys': dbt_backfill.get_postgres_told_keys(facts), 'doubtful': doubtful}, sort_keys=true)) }}
{% endmacro %}


{#-
    What events may not have told by what was noted when they were landed, as the end of a sentence; none if all is well.

    Arguments:
      notes (list of text): see get_landing_note.
      key (list): the names of the upstream's columns.
-#}
{% macro find_untold(notes, key, observed) %}
    {%- for note in notes -%}
        {%- set noted, told = fromjson(note), [] -%}
        {%- for columns in noted['keys'] -%} {%- do told.append(columns | map('lower') | sort) -%} {%- endfor -%}
        {%- if key and key | map('lower') | sort not in told -%}
            {{ return('when its changes were landed, events of the upstream did not tell the key ' ~ key | join(', ') ~ ' of each row') }}
        {%- endif -%}
        {%- for name in noted.doubtful if name in observed.read and not observed.followed.get('finite') -%}
            {{ return('when its changes were landed, wal2json may have told a NaN or an infinity of the column ' ~ name ~ ' as null') }}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}
