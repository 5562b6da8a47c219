{#-
    Land what was committed in PostgreSQL since the last time in the change tables of models: the events that a replication slot reports
    go into them, whole transactions only, and only then does the slot release its WAL. If it ends early, the next one goes on from there.

    Usage:
      dbt run-operation land_changes
      dbt run-operation land_changes --args '{model: my_mv}'
      dbt run-operation land_changes --args '{models: [my_mv, other_mv], batch_rows: 50000}'
      dbt run-operation land_changes --args '{slot: my_slot}'

    Arguments:
      model, models (string, list): those whose change_feed names the slots to land; all models that share a slot are landed.
      slot (string): the slot to land. Without any of these: all slots of the project.
      batch_rows (integer): after how many events a commit ends, 100,000 by default; a transaction is never divided.
      wal_warning_mb (integer): how much WAL a slot may keep before there is a warning, 1024 by default.
-#}
{% macro land_changes(model=none, models=none, slot=none, batch_rows=100000, wal_warning_mb=1024) -%}
    {%- set given = {'model': model, 'models': models, 'slot': slot, 'batch_rows': batch_rows, 'wal_warning_mb': wal_warning_mb} -%}
    {%- do dbt_backfill.check_argument_names('land_changes', kwargs, given.keys() | list, 'land_changes') -%}
    {%- if [model, models, slot] | reject('none') | list | length > 1 -%}
        {%- do dbt_backfill.refuse(
            'more than one of model, models and slot is given', "Give one of them, or none for all slots: --args '{model: my_mv}'", mv='land_changes'
        ) -%}
    {%- elif slot is not none and (slot is not string or not slot) -%}
        {%- do dbt_backfill.refuse_argument('land_changes', 'slot', slot, 'the name of a replication slot') -%}
    {%- endif -%}
    {%- set names = dbt_backfill.as_list(model or models or []) -%}
    {%- set are_names = names and models is not mapping and not names | reject('string') | list -%}
    {%- for argument in ['model', 'models'] if given[argument] is not none and not are_names -%}
        {%- do dbt_backfill.refuse_argument(
            'land_changes', argument, given[argument], 'the name of one model' if argument == 'model' else 'a list of names of models'
        ) -%}
    {%- endfor -%}
    {%- for argument in ['batch_rows', 'wal_warning_mb'] if given[argument] is not integer or given[argument] is boolean or given[argument] < 1 -%}
        {%- do dbt_backfill.refuse_argument('land_changes', argument, given[argument], 'a whole number of 1 or more') -%}
    {%- endfor -%}
    {%- for landing in dbt_backfill.find_landings(given) -%} {%- do dbt_backfill.run_landing(landing, given) -%} {%- endfor -%}
{%- endmacro %}


{#-
    Return what is landed, as a list, by slot, of {
      'slot', 'catalog': Spark's, of the database,
      'tables': a list of {
        'relation': the change table, 'upstream': the relation whose changes it has, 'table': the name of that in PostgreSQL,
        'format': of the change table if it has to be created, 'name': of the first model that reads it
      }
    }
    All change tables of a slot belong to it: the slot moves on only after each of them has its events.
-#}
{% macro find_landings(given) %}
    {%- set wanted, all = [given.slot] if given.slot else [], dbt_backfill.get_landed_tables() -%}
    {%- for name in dbt_backfill.as_list(given.model or given.models or []) -%}
        {%- set landed = dbt_backfill.get_landed_table(dbt_backfill.find_backfilled_mv(name, 'land_changes')) -%}
        {%- if not landed -%}
            {%- do dbt_backfill.refuse(
                'its change_feed names no slot to land from', "Set 'slot' in change_feed, if its upstream is a table of PostgreSQL", mv=name
            ) -%}
        {%- endif -%}
        {%- do wanted.append(landed.slot) -%}
    {%- endfor -%}
    {%- set slots = (wanted or all | map(attribute='slot')) | unique | list -%}
    {%- for slot in slots if slot not in all | map(attribute='slot') | list -%}
        {%- do dbt_backfill.refuse('no change_feed names the slot ' ~ slot, "Set 'slot' in the change_feed of a model", mv='land_changes') -%}
    {%- endfor -%}
    {%- if not slots -%}
        {%- do dbt_backfill.refuse(
            'no change_feed names a slot', "Set 'slot' in the change_feed of a model whose upstream is a table of PostgreSQL", mv='land_changes'
        ) -%}
    {%- endif -%}
    {%- set landings = [] -%}
    {%- for slot in slots -%}
        {%- do landings.append(dbt_backfill.new_landing(slot, all | selectattr('slot', 'equalto', slot) | list)) -%}
    {%- endfor -%}
    {{ return(landings) }}
{% endmacro %}
