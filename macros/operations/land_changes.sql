{#-
    Land what was committed in PostgreSQL since the last time in the change tables of models: the events that a replication slot
    tells go into them, whole transactions only, and only then does the slot let go of its WAL. Whatever ends it in between, the
    next one goes on from there.

    Usage:
      dbt run-operation land_changes
      dbt run-operation land_changes --args '{model: my_mv}'
      dbt run-operation land_changes --args '{models: [my_mv, other_mv], batch_rows: 50000}'
      dbt run-operation land_changes --args '{slot: my_slot}'

    Arguments:
      model, models (string, list): those whose change_feed names the slots to land; whoever shares a slot is landed too.
      slot (string): the slot to land. Without any of these: all slots of the project.
      batch_rows (integer): after how many events a commit ends, 100,000 by default; a transaction is never divided.
      wal_warning_mb (integer): from how much WAL on, that a slot keeps the database from removing, there is a warning; 1024 by default.
-#}
{% macro land_changes(model=none, models=none, slot=none, batch_rows=100000, wal_warning_mb=1024) -%}
    {%- set given = {'model': model, 'models': models, 'slot': slot, 'batch_rows': batch_rows, 'wal_warning_mb': wal_warning_mb} -%}
    {%- do dbt_backfill.check_land_arguments(given, kwargs) -%}
    {%- for landing in dbt_backfill.find_landings(given) -%}
        {%- do dbt_backfill.run_landing(landing, given) -%}
    {%- endfor -%}
{%- endmacro %}


{% macro check_land_arguments(given, unknown) %}
    {%- do dbt_backfill.check_argument_names('land_changes', unknown, given.keys() | list, 'land_changes') -%}
    {%- if [given.model, given.models, given.slot] | reject('none') | list | length > 1 -%}
        {%- do dbt_backfill.refuse(
            'more than one of model, models and slot is given', "Give one of them, or none for all slots: --args '{model: my_mv}'", mv='land_changes'
        ) -%}
    {%- elif given.slot is not none and (given.slot is not string or not given.slot) -%}
        {%- do dbt_backfill.refuse_argument('land_changes', 'slot', given.slot, 'the name of a replication slot') -%}
    {%- endif -%}
    {%- set names = dbt_backfill.as_list(given.model or given.models or []) -%}
    {%- for argument in ['model', 'models'] if given[argument] is not none and (not names or given.models is mapping or names | reject('string') | list) -%}
        {%- do dbt_backfill.refuse_argument(
            'land_changes', argument, given[argument], 'the name of one model' if argument == 'model' else 'a list of names of models'
        ) -%}
    {%- endfor -%}
    {%- for argument in ['batch_rows', 'wal_warning_mb'] if given[argument] is not integer or given[argument] is boolean or given[argument] < 1 -%}
        {%- do dbt_backfill.refuse_argument('land_changes', argument, given[argument], 'a whole number of 1 or more') -%}
    {%- endfor -%}
{% endmacro %}


{#-
    What is landed: a list, by slot, of {
      'slot', 'catalog': of Spark, of the database,
      'tables': a list of {
        'relation': the change table, 'upstream': the relation of what it tells the changes of, 'table': the name of that in PostgreSQL,
        'format': of the change table if it has to be created, 'name': of the first model that reads it
      }
    }
    All change tables of a slot belong to it: it is only moved on once each of them has its events.
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
        {%- do dbt_backfill.refuse('no change_feed names a slot', "Set 'slot' in the change_feed of a model whose upstream is a table of PostgreSQL", mv='land_changes') -%}
    {%- endif -%}
    {%- set landings = [] -%}
    {%- for slot in slots -%} {%- do landings.append(dbt_backfill.new_landing(slot, all | selectattr('slot', 'equalto', slot) | list)) -%} {%- endfor -%}
    {{ return(landings) }}
{% endmacro %}
